// A network that loses packets: half-open connections, whose other end may be there or not.

#include "farcall/tests/faults/network.h"

#include <catch2/catch.hpp>
#include <iostream>
#include <optional>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/faults/process.h"
#include "farcall/tests/faults/scene.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/rpc/sanitized.h"
#include "farcall/tests/services/journal.h"
#include "farcall/transports/dial.h"

namespace farcall::faults {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Eventually;

// Long enough for a loaded machine to answer within, far shorter than the deadlines of calls.
constexpr Duration kPatience = milliseconds(testing::kSanitized ? 1500 : 500);

ChannelOptions Watchful() {
  return {.connect_timeout = kPatience,
          .backoff = {.first = milliseconds(5), .max = milliseconds(50)},
          .keepalive = {
              .handshake_timeout = kPatience, .ping_after = kPatience, .ping_timeout = kPatience}};
}

// A server in another network, a caller beside it over a cable that holds, and the failing one.
struct Far {
  Far()
      : server({.address = "tcp://0.0.0.0:0",
                .ping_ms = static_cast<int>(kPatience / milliseconds(1)),
                .by = {"/usr/bin/unshare", "--net"}}),
        network(server.pid()),
        healthy(At(Network::kSound)) {
    REQUIRE(healthy.Trouble() == "");
  }

  Endpoint At(const std::string& host) const {
    Endpoint endpoint = server.endpoint();
    endpoint.host = host;
    return endpoint;
  }

  ServerProcess server;
  Network network;
  hostile::HealthyCaller healthy;
};

// CTest takes the line for a skipped test: see CMakeLists.txt.
std::optional<Far> MakeFar() {
  std::string why;
  if (!Network::Enter(why)) {
    std::cout << "skipped: " << why << std::endl;
    return std::nullopt;
  }
  return std::optional<Far>(std::in_place);
}

bool Says(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

void LoseUnderLoad(Far& far, const std::vector<Network::Way>& ways) {
  auto channel = Dial(far.At(Network::kFailing).ToString(), Watchful());
  REQUIRE(channel.ok());
  testing::Journal::Client client(*channel);
  testing::JournalLoad load(*channel, {.outstanding = 64,
                                       .work_us = 2000,
                                       .data_bytes = 20'000,
                                       .reply_bytes = 20'000,
                                       .linger = true,
                                       .timeout = seconds(60)});
  REQUIRE(Eventually([&] { return load.succeeded() > 200; }, seconds(20)));
  for (const Network::Way way : ways) far.network.Lose(way);

  // By keepalive, long before their deadlines; new ones cannot be sent, and say so.
  REQUIRE(Eventually([&] { return load.failed() >= 64; }, seconds(40)));
  testing::EntryT entry;
  entry.number = 1'000'000'000;
  const auto late = client.Note(entry, {.timeout = 2 * kPatience, .wait_for_ready = true});
  INFO(late.status());
  CHECK((absl::IsDeadlineExceeded(late.status()) || absl::IsUnavailable(late.status())));
  CHECK(OutcomeOf(late.status()) == Outcome::kNotSent);
  CHECK(Says(late.status(), Network::kFailing));
  CHECK(far.healthy.Trouble() == "");

  far.network.Heal();
  const uint64_t before = load.succeeded();
  CHECK(Eventually([&] { return load.succeeded() > before + 200; }, seconds(40)));
  REQUIRE(load.Stop(seconds(70)));
  entry.number += 1;
  CHECK(client.Note(entry, {.timeout = seconds(30), .wait_for_ready = true}).ok());

  const testing::JournalEnds ends = load.ends();
  const auto ran = far.server.Ran();
  const testing::JournalVerdict verdict = testing::Judge(ends, ran);
  CHECK(verdict.trouble == "");
  CHECK(verdict.unknown > 0);
  CHECK_FALSE(ran.contains(1'000'000'000));
  for (const auto& [number, statuses] : ends) {
    if (statuses[0].ok()) continue;
    INFO(statuses[0]);
    CHECK(absl::IsUnavailable(statuses[0]));
  }
  CHECK(far.healthy.Trouble() == "");
}

TEST_CASE("packets dropped both ways: calls end by keepalive, and go on when the network heals") {
  const hostile::LogLines log;
  auto far = MakeFar();
  if (!far) return;
  LoseUnderLoad(*far, {Network::Way::kRequests, Network::Way::kReplies});
  CHECK(log.Saw("no answer to PING"));
}

TEST_CASE("packets dropped one way: likewise") {
  const hostile::LogLines log;
  auto far = MakeFar();
  if (!far) return;
  LoseUnderLoad(*far, {GENERATE(Network::Way::kRequests, Network::Way::kReplies)});
}

TEST_CASE("packets dropped: a server gives the caller up, and what it did for it") {
  const hostile::LogLines log;
  auto far = MakeFar();
  if (!far) return;
  auto channel = Dial(far->At(Network::kFailing).ToString());  // of great patience
  REQUIRE(channel.ok());
  testing::Probe::Client client(*channel);
  testing::AskT ask;
  ask.number = 120'000;  // ms
  std::atomic<int> ended{0};
  absl::Status last;
  for (int i = 0; i < 8; ++i) {
    client.AsyncWait(ask, {.timeout = seconds(100)},
                     [&](const absl::StatusOr<Msg<testing::Answer>>& reply) {
                       last = reply.status();
                       ++ended;
                     });
  }
  REQUIRE(client.Object(testing::AskT()).ok());  // those before it have arrived
  far->network.Lose(Network::Way::kRequests);
  far->network.Lose(Network::Way::kReplies);
  const size_t before = Descriptors(far->server.pid()).size();
  REQUIRE(Eventually([&] { return Descriptors(far->server.pid()).size() < before; }, seconds(40)));
  CHECK(ended == 0);  // nothing told the caller
  far->network.Heal();
  REQUIRE(Eventually([&] { return ended == 8; }, seconds(60)));
  INFO(last);
  CHECK(absl::IsUnavailable(last));
  CHECK(OutcomeOf(last) == Outcome::kUnknown);
  CHECK(client.Object(testing::AskT(), {.timeout = seconds(20), .wait_for_ready = true}).ok());
  CHECK(far->healthy.Trouble() == "");
}

TEST_CASE("packets dropped before there is a connection: not sent, in time, and sent later") {
  const hostile::LogLines log;
  auto far = MakeFar();
  if (!far) return;
  far->network.Lose(Network::Way::kRequests);
  auto channel = Dial(far->At(Network::kFailing).ToString(), Watchful());
  REQUIRE(channel.ok());
  testing::Journal::Client client(*channel);
  const auto at_once = client.Note(testing::EntryT(), {.timeout = seconds(60)});
  INFO(at_once.status());
  CHECK(absl::IsUnavailable(at_once.status()));
  CHECK(OutcomeOf(at_once.status()) == Outcome::kNotSent);
  CHECK(Says(at_once.status(), "no answer"));
  const auto patient =
      client.Note(testing::EntryT(), {.timeout = 3 * kPatience, .wait_for_ready = true});
  INFO(patient.status());
  CHECK(absl::IsDeadlineExceeded(patient.status()));
  CHECK(OutcomeOf(patient.status()) == Outcome::kNotSent);
  CHECK(Says(patient.status(), "no answer"));
  CHECK(far->server.Ran().empty());
  far->network.Heal();
  CHECK(client.Note(testing::EntryT(), {.timeout = seconds(30), .wait_for_ready = true}).ok());
}

}  // namespace
}  // namespace farcall::faults
