// A server with other paths, against a peer that says what it likes: who is offered what, who comes
// by it, and what one peer can make the server hold.

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/tests/rpc/scripted.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;
using std::chrono::seconds;

// Takes the token "good"; every session with it is beside the first one.
class Book final : public PathHost {
 public:
  absl::StatusOr<uint64_t> Enter(const ConnectionInfo& /*over*/, std::string_view token,
                                 EndPath end, TimePoint /*now*/) override {
    if (!token.empty() && token != "good") return absl::PermissionDeniedError("an unknown token");
    ++last;
    if (!token.empty()) paths.emplace(last, std::move(end));
    ++present;
    return last;
  }
  std::vector<PathOffer> Offer(uint64_t session, const ConnectionInfo& over,
                               TimePoint /*now*/) override {
    ++asked;
    return {{"fast", "for " + std::to_string(session) + " over " + over.transport}};
  }
  size_t Paths(uint64_t session) const override { return session == 1 ? paths.size() : 0; }
  void Leave(uint64_t session) override {
    --present;
    if (paths.erase(session) > 0) return;
    for (auto& [path, end] : paths) end(absl::UnavailableError("the first one is gone"));
  }

  uint64_t last = 0;
  int present = 0, asked = 0;
  std::map<uint64_t, EndPath> paths;
};

// Leaves `book` with all connections that it accepts.
class Hosting final : public Transport {
 public:
  Hosting(std::shared_ptr<Transport> inner, std::shared_ptr<PathHost> book)
      : inner_(std::move(inner)), book_(std::move(book)) {}
  std::unique_ptr<PendingConnect> Connect(EventLoop& loop, const Endpoint& endpoint,
                                          TimePoint deadline, ConnectDone done) override {
    return inner_->Connect(loop, endpoint, deadline, std::move(done));
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint,
                                                   std::vector<EventLoop*> loops,
                                                   Acceptor acceptor) override {
    return inner_->Listen(
        endpoint, std::move(loops),
        [book = book_, acceptor](EventLoop& loop, std::unique_ptr<Connection> connection) {
          connection->SetPathHost(book);
          acceptor(loop, std::move(connection));
        });
  }

 private:
  const std::shared_ptr<Transport> inner_;
  const std::shared_ptr<PathHost> book_;
};

struct PathsWorld : World {
  explicit PathsWorld(bool hosting = true) {
    ServerOptions options;
    options.external_loops = {loop};
    options.keepalive.ping_after = seconds(5);
    options.keepalive.stall_timeout = seconds(8);
    server = std::make_unique<Server>(std::move(options));
    REQUIRE(server->Add(Probe::Bind(probe)).ok());
    if (hosting) transport = std::make_shared<Hosting>(transport, book);
    REQUIRE(server->Listen(transport, endpoint).ok());
  }
  ~PathsWorld() {
    std::atomic<bool> gone{false};
    std::thread ending([&] {
      server.reset();
      gone = true;
    });
    while (!gone) Turn();
    ending.join();
    Settle();
    CHECK(pool->stats().leased_bytes == 0);
    CHECK(book->present == 0);
  }

  // After both sides said HELLO; this one with `token`.
  std::unique_ptr<Peer> Greeted(const std::string& token = "") {
    std::unique_ptr<Connection> made;
    std::unique_ptr<Transport::PendingConnect> pending;
    OnLoop([&] {
      pending = transport->Connect(*loop, endpoint, clock.Now() + seconds(1),
                                   [&](absl::StatusOr<std::unique_ptr<Connection>> connection) {
                                     if (connection.ok()) made = *std::move(connection);
                                   });
    });
    Settle();
    REQUIRE(made != nullptr);
    OnLoop([&] { pending.reset(); });
    auto peer = std::make_unique<Peer>(*this, std::move(made));
    Hello hello = Peer::UsualHello();
    hello.token = token;
    peer->SayHello(hello);
    Settle();
    const Heard theirs = peer->Next(FrameType::kHello);
    features = DecodeHello(theirs.header, theirs.message.head.bytes())->features;
    return peer;
  }

  ProbeImpl probe;
  std::shared_ptr<Book> book = std::make_shared<Book>();
  std::unique_ptr<Server> server;
  uint64_t features = 0;  // that the server said last
};

void CheckEnded(Peer& peer, absl::StatusCode code, const std::string& text) {
  const Heard bye = peer.Next(FrameType::kGoAway);
  CHECK(bye.status.code() == code);
  CHECK_THAT(std::string(bye.status.message()), Contains(text));
  CHECK(peer.closed());
}

std::vector<PathOffer> Offers(const Heard& heard) {
  std::vector<PathOffer> offers;
  FieldReader fields(heard.message.head.bytes());
  for (Field field; fields.Next(field);) {
    offers.push_back({std::string(field.key), std::string(field.value)});
  }
  return offers;
}

TEST_CASE("who asks is told what there is, each time anew") {
  PathsWorld world;
  auto peer = world.Greeted();
  CHECK(world.features == kFeatureOffers);
  CHECK(world.book->asked == 0);
  for (int i = 1; i <= 3; ++i) {
    peer->Say({.type = FrameType::kOffers});
    world.Settle();
    const auto offers = Offers(peer->Next(FrameType::kOffers));
    REQUIRE(offers.size() == 1);
    CHECK(offers[0].name == "fast");
    CHECK(offers[0].value == "for 1 over loopback");
    CHECK(world.book->asked == i);
  }
  auto other = world.Greeted();
  other->Say({.type = FrameType::kOffers});
  world.Settle();
  CHECK(Offers(other->Next(FrameType::kOffers))[0].value == "for 2 over loopback");
}

TEST_CASE("a server without other paths says so, and answers who asks all the same") {
  PathsWorld world(/*hosting=*/false);
  auto peer = world.Greeted();
  CHECK(world.features == 0);
  peer->Say({.type = FrameType::kOffers});
  world.Settle();
  CHECK(Offers(peer->Next(FrameType::kOffers)).empty());
  auto lost = world.Greeted("good");
  CheckEnded(*lost, absl::StatusCode::kFailedPrecondition, "knows no tokens");
}

TEST_CASE("a token that is refused ends its connection, with the reason") {
  PathsWorld world;
  auto main = world.Greeted();
  auto path = world.Greeted("bad");
  CheckEnded(*path, absl::StatusCode::kPermissionDenied, "an unknown token");
  CHECK(!main->closed());
  CHECK(world.book->present == 1);
}

TEST_CASE("a PROBE comes back as it was, by a path or not") {
  const bool by_path = GENERATE(true, false);
  PathsWorld world(/*hosting=*/by_path);
  const auto main = world.Greeted();
  const auto path = world.Greeted(by_path ? "good" : "");
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{256} << 10, size_t{kMaxProbeBytes}}) {
    Buffer body = *world.pool->Allocate(bytes);
    for (size_t i = 0; i < bytes; ++i) body.data()[i] = static_cast<std::byte>(i * 7);
    path->Say({.type = FrameType::kProbe, .call = bytes + 1}, {}, std::move(body));
    world.Settle();
    const Heard back = path->Next(FrameType::kProbe);
    CHECK(back.header.call == bytes + 1);
    REQUIRE(back.message.body.size() == bytes);
    bool same = true;
    for (size_t i = 0; i < bytes; ++i) {
      same = same && back.message.body.data()[i] == static_cast<std::byte>(i * 7);
    }
    CHECK(same);
  }
}

TEST_CASE("a PROBE that breaks a rule ends its connection") {
  PathsWorld world;
  auto main = world.Greeted();
  const auto invalid = absl::StatusCode::kInvalidArgument;
  SECTION("too large") {
    auto path = world.Greeted("good");
    path->Say({.type = FrameType::kProbe}, {}, Garbage(world, kMaxProbeBytes + 1));
    world.Settle();
    CheckEnded(*path, invalid, "the limit is 1048576");
  }
  SECTION("with an attachment") {
    auto path = world.Greeted("good");
    path->Say({.type = FrameType::kProbe}, {}, {}, Garbage(world, 10));
    world.Settle();
    CheckEnded(*path, invalid, "an attachment on a PROBE");
  }
  SECTION("with a field") {
    auto path = world.Greeted("good");
    path->Say({.type = FrameType::kPing});
    path->SayRaw(std::string("\x09", 1) + std::string(31, '\0') +
                 std::string("\x05\0\1\0\0\0\0\0k", 9));
    world.Settle();
    path->Next(FrameType::kPong);
    CheckEnded(*path, invalid, "kind 5 in a frame of type 9");
  }
  CHECK(world.book->paths.empty());
}

TEST_CASE("OFFERS with fields or a payload from a caller break the rules") {
  PathsWorld world;
  auto peer = world.Greeted();
  if (GENERATE(true, false)) {
    peer->Say({.type = FrameType::kOffers}, {{FieldKind::kOffer, "fast", "x"}});
    world.Settle();
    CheckEnded(*peer, absl::StatusCode::kInvalidArgument, "from the side that calls");
  } else {
    peer->Say({.type = FrameType::kOffers}, {}, Garbage(world, 10));
    world.Settle();
    CheckEnded(*peer, absl::StatusCode::kInvalidArgument, "a payload on a control frame");
  }
}

TEST_CASE("the first connection ends: so do those beside it, in a later turn") {
  PathsWorld world;
  auto main = world.Greeted();
  auto path = world.Greeted("good");
  main->Close();
  world.Settle();
  CheckEnded(*path, absl::StatusCode::kUnavailable, "the first one is gone");
  CHECK(world.book->present == 0);
}

TEST_CASE("a draining server keeps a quiet connection while a path beside it works") {
  PathsWorld world;
  auto main = world.Greeted();
  auto path = world.Greeted("good");
  path->Say({.type = FrameType::kRequest,
             .call = 1,
             .method = Probe::WaitMethod::info().id,
             .timeout_ns = 600'000'000'000},
            {}, AskBody(world, "", 60'000));
  world.Settle();
  REQUIRE(world.probe.ran == 1);
  world.server->Drain();
  world.Settle();
  main->Next(FrameType::kGoAway);
  path->Next(FrameType::kGoAway);
  for (int second = 0; second < 5; ++second) world.Pass(seconds(1));
  CHECK(!main->closed());
  CHECK(!path->closed());
  path->Close();
  world.Settle();
  for (int second = 0; second < 3; ++second) world.Pass(seconds(1));
  CHECK(main->closed());
}

}  // namespace
}  // namespace farcall::testing
