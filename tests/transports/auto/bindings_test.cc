#include "farcall/transports/auto/bindings.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "farcall/transports/auto/offer.h"

namespace farcall::paths {
namespace {

using Catch::Matchers::Contains;

constexpr auto kDenied = absl::StatusCode::kPermissionDenied;

struct Table {
  Bindings bindings;
  TimePoint now{std::chrono::hours(1)};
  int ended = 0;

  std::string Token(uint64_t session, const std::string& name = "shm") {
    return bindings.NewToken(session, name, now).value();
  }
  absl::StatusOr<uint64_t> Take(const std::string& token, const std::string& name = "shm") {
    return bindings.EnterPath(
        name, token, [this](const absl::Status&) { ++ended; }, now);
  }
};

TEST_CASE("a token binds a path to the session that it was given to, once") {
  Table table;
  const uint64_t main = table.bindings.EnterMain();
  const std::string token = table.Token(main);
  CHECK(token.size() == kTokenBytes);
  CHECK(table.Take(token).ok());
  CHECK(table.bindings.Paths(main) == 1);
  CHECK(table.Take(token).status().code() == kDenied);
  CHECK(table.bindings.Paths(main) == 1);
  CHECK(table.bindings.tokens() == 0);
}

TEST_CASE("a token that is unknown, old, void, of another path, or of a session that left") {
  Table table;
  const uint64_t main = table.bindings.EnterMain();
  CHECK(table.Take(std::string(kTokenBytes, 'x')).status().code() == kDenied);
  CHECK_THAT(std::string(table.Take("").status().message()), Contains("over TCP"));

  const std::string other = table.Token(main, "rdma");
  CHECK_THAT(std::string(table.Take(other).status().message()), Contains("the path rdma"));
  CHECK(table.Take(other, "rdma").status().code() == kDenied);  // it was taken, if in vain

  const std::string old = table.Token(main);
  table.now += Bindings::kTokenLife;
  CHECK(table.Take(old).status().code() == kDenied);

  const std::string replaced = table.Token(main);
  table.bindings.VoidTokens(main);
  CHECK(table.Take(replaced).status().code() == kDenied);

  const std::string orphan = table.Token(main);
  table.bindings.Leave(main);
  CHECK(table.Take(orphan).status().code() == kDenied);
  CHECK(table.bindings.NewToken(main, "shm", table.now).status().code() ==
        absl::StatusCode::kUnavailable);
  CHECK(table.bindings.tokens() == 0);
}

TEST_CASE("a session that leaves takes its paths along, each once, and nobody else's") {
  Table table;
  const uint64_t main = table.bindings.EnterMain();
  const uint64_t neighbour = table.bindings.EnterMain();
  const uint64_t gone = table.Take(table.Token(main)).value();
  table.Take(table.Token(main)).value();
  table.Take(table.Token(neighbour)).value();
  table.bindings.Leave(gone);
  CHECK(table.bindings.Paths(main) == 1);
  CHECK(table.ended == 0);
  table.bindings.Leave(main);
  CHECK(table.ended == 1);
  table.bindings.Leave(main);
  CHECK(table.ended == 1);
  CHECK(table.bindings.Paths(neighbour) == 1);
}

TEST_CASE("paths beside one session are bounded") {
  Table table;
  const uint64_t main = table.bindings.EnterMain();
  for (size_t i = 0; i < Bindings::kMaxPaths; ++i) CHECK(table.Take(table.Token(main)).ok());
  CHECK(table.Take(table.Token(main)).status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("no token comes twice") {
  Table table;
  const uint64_t main = table.bindings.EnterMain();
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(table.Token(main));
  CHECK(seen.size() == 1000);
}

}  // namespace
}  // namespace farcall::paths
