// A peer whose process stands still: its kernel takes what is sent, and nobody answers.

#include <signal.h>

#include <catch2/catch.hpp>
#include <thread>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/faults/process.h"
#include "farcall/tests/faults/scene.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/hostile/peer.h"
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

bool Says(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

TEST_CASE("SIGSTOP of a server: calls end by keepalive or deadline, and go on after SIGCONT") {
  const hostile::LogLines log;
  const std::string scheme = GENERATE("tcp", "unix", "shm");
  ServerProcess server({.scheme = scheme});
  const ServerProcess other({.scheme = scheme});
  const hostile::HealthyCaller healthy(other.endpoint());
  auto channel = Dial(server.address(), Watchful());
  REQUIRE(channel.ok());
  testing::Journal::Client client(*channel);
  testing::JournalLoad load(
      *channel, {.outstanding = 32, .work_us = 1000, .linger = true, .timeout = seconds(60)});
  REQUIRE(Eventually([&] { return load.succeeded() > 100; }));

  Signal(server.pid(), SIGSTOP);
  REQUIRE(WaitUntilStopped(server.pid()));
  testing::EntryT entry;
  entry.number = 1'000'000'000;
  // Sent before anybody knows: by its deadline, and nobody can say whether it ran.
  const auto early = client.Note(entry, {.timeout = kPatience / 2});
  INFO(early.status());
  CHECK(absl::IsDeadlineExceeded(early.status()));
  CHECK(OutcomeOf(early.status()) == Outcome::kUnknown);
  // The 32: by keepalive, long before their deadlines.
  REQUIRE(Eventually([&] { return load.failed() >= 32; }, seconds(30)));
  REQUIRE(log.Saw("no answer to PING"));
  // The kernel of a stopped process still accepts connections, but no HELLO comes, nor an answer of
  // its device.
  entry.number += 1;
  const auto late = client.Note(entry, {.timeout = 4 * kPatience, .wait_for_ready = true});
  INFO(late.status());
  CHECK(absl::IsDeadlineExceeded(late.status()));
  CHECK(OutcomeOf(late.status()) == Outcome::kNotSent);
  CHECK(Says(late.status(), scheme == "shm" ? "no answer" : "HELLO"));
  CHECK(healthy.Trouble() == "");

  Signal(server.pid(), SIGCONT);
  const uint64_t before = load.succeeded();
  CHECK(Eventually([&] { return load.succeeded() > before + 100; }, seconds(30)));
  REQUIRE(load.Stop(seconds(70)));
  entry.number += 1;
  CHECK(client.Note(entry, {.timeout = seconds(20), .wait_for_ready = true}).ok());

  const testing::JournalEnds ends = load.ends();
  const auto ran = server.Ran();
  const testing::JournalVerdict verdict = testing::Judge(ends, ran);
  CHECK(verdict.trouble == "");
  CHECK(verdict.unknown >= 32);
  for (const auto& [number, statuses] : ends) {
    if (statuses[0].ok()) continue;
    INFO(statuses[0]);
    CHECK(absl::IsUnavailable(statuses[0]));
  }
  CHECK_FALSE(ran.contains(entry.number - 1));  // `late` said so
}

TEST_CASE("SIGSTOP of a caller: the server gives it up, serves the others and takes it back") {
  const hostile::LogLines log;
  hostile::Ground ground({.keepalive = {.ping_after = kPatience, .ping_timeout = kPatience}});
  testing::Child caller({Program("faults_caller"), ground.endpoint.ToString()});
  REQUIRE(caller.address() == "ready");
  REQUIRE(Eventually([&] { return ground.server.stats().calls_running >= 8; }));

  Signal(caller.pid(), SIGSTOP);
  REQUIRE(WaitUntilStopped(caller.pid()));
  CHECK(Eventually([&] { return ground.server.stats().connections_open == 1; }, seconds(30)));
  CHECK(Eventually([&] { return ground.probe.cancelled >= 8; }));  // its calls went with it
  CHECK(ground.healthy->Trouble() == "");

  Signal(caller.pid(), SIGCONT);
  // Its eight calls waited for a minute of the server's time: they were sent, and are lost.
  for (int i = 0; i < 8; ++i) CHECK(caller.ReadLine() == "UNAVAILABLE unknown");
  CHECK(caller.ReadLine() == "OK answered");  // the next call of the same channel
  CHECK(WEXITSTATUS(caller.End(0)) == 0);
  CHECK(ground.healthy->Trouble() == "");
}

// A raw server: what the stopped side finds in its socket when it wakes is decided here.
TEST_CASE("a process that stood still for longer than ping_timeout reads before it judges") {
  auto listener = tcp::testing::RawSocket::Listen(*ParseEndpoint("tcp://127.0.0.1:0"));
  constexpr Duration kLong = 3 * kPatience;
  testing::Child caller({Program("faults_caller"), listener.address().ToString(),
                         std::to_string(kLong / milliseconds(1))});
  REQUIRE(caller.address() == "ready");
  hostile::Peer server(listener.Accept());
  REQUIRE(server.Say(hostile::Greeting()));
  std::vector<uint64_t> calls;
  while (calls.size() < 8) {
    const auto request = server.Hear(hostile::kRequest);
    REQUIRE(request);
    calls.push_back(request->header.call);
  }
  for (int round = 0; round < 2; ++round) {
    const auto ping = server.Hear(hostile::kPing);
    REQUIRE(ping);
    Signal(caller.pid(), SIGSTOP);
    REQUIRE(WaitUntilStopped(caller.pid()));
    REQUIRE(server.Say(
        hostile::Message(hostile::Head({.type = hostile::kPong, .call = ping->header.call}))));
    std::this_thread::sleep_for(2 * kLong);  // its time to be answered passes: it is there
    Signal(caller.pid(), SIGCONT);
  }
  // The connection is still the same: its calls can be answered on it.
  for (const uint64_t call : calls) {
    REQUIRE(server.Say(
        hostile::Message(hostile::Head({.type = hostile::kReply, .status = 5, .call = call}))));
  }
  for (int i = 0; i < 8; ++i) CHECK(caller.ReadLine() == "NOT_FOUND answered");
}

}  // namespace
}  // namespace farcall::faults
