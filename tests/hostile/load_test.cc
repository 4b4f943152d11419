// Callers that obey the wire's grammar and want too much: connections, memory, patience. The bound
// is the server's own, and it names it in the log.

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/hostile/peer.h"
#include "farcall/tests/hostile/server_cases.h"

namespace farcall::hostile {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Small kernel buffers: what a peer does not read is soon the server's to keep.
TcpOptions SmallSockets() {
  TcpOptions tcp;
  tcp.send_buffer_bytes = 16 << 10;
  return tcp;
}

Peer NeverReads(const Ground& ground) {
  Peer peer = Peer::Connect(ground.endpoint);
  peer.TakeLittle();
  REQUIRE(peer.Say(Greeting()));
  return peer;
}

// ---- connections ----

TEST_CASE("connections that never say HELLO are closed in time; too many are refused") {
  LogLines log;
  Ground ground({.keepalive = {.handshake_timeout = milliseconds(1000)}, .max_connections = 200});
  REQUIRE(ground.healthy->Trouble() == "");
  std::vector<Peer> flood;
  for (int i = 0; i < 300; ++i) flood.push_back(Peer::Connect(ground.endpoint));
  int refused = 0, late = 0;
  for (Peer& peer : flood) {
    const std::optional<Heard> bye = peer.Hear(kGoAway);
    REQUIRE(bye);
    if (bye->header.status == static_cast<int>(absl::StatusCode::kResourceExhausted)) {
      CHECK_THAT(bye->reason, Contains("ServerOptions::max_connections"));
      ++refused;
    } else {
      CHECK_THAT(bye->reason, Contains("sent no HELLO within"));
      ++late;
    }
    CHECK_FALSE(peer.Hear());
  }
  CHECK(refused >= 100);
  CHECK(late > 0);
  CHECK(log.Saw("ServerOptions::max_connections"));
  CHECK(ground.Quiet());
  CHECK(ground.healthy->Trouble() == "");
}

// ---- half frames, a byte at a time ----

TEST_CASE("a slow half frame is cut off by the handshake's or the keepalive's time") {
  LogLines log;
  Ground ground({.keepalive = {.handshake_timeout = milliseconds(1000),
                               .ping_after = milliseconds(1000),
                               .ping_timeout = milliseconds(1000)}});
  const std::string hello = Hello(), ask = AskMessage();
  struct Drip {
    std::string at_once, slowly;
  };
  const std::vector<Drip> drips = {
      {"", Preamble()},                                       // inside the preamble
      {Preamble(), hello},                                    // inside HELLO
      {Greeting(), ask.substr(0, 24)},                        // inside a prefix
      {Greeting() + ask.substr(0, 24), ask.substr(24, 32)}};  // inside a head
  std::vector<Peer> peers;
  for (const Drip& drip : drips) {
    peers.push_back(Peer::Connect(ground.endpoint));
    REQUIRE(peers.back().Say(drip.at_once));
    REQUIRE(peers.back().Hear(kHello));
  }
  // A byte now and then. The shortest, of 8 bytes, ends after the time that it has.
  bool all_cut = false;
  for (size_t said = 0; said < 20 && !all_cut; ++said) {
    for (size_t i = 0; i < peers.size(); ++i) {
      if (said < drips[i].slowly.size() - 1) peers[i].Say(drips[i].slowly.substr(said, 1));
    }
    std::this_thread::sleep_for(milliseconds(200));
    all_cut = ground.server.stats().connections_open <= 1;
  }
  CHECK(all_cut);
  for (Peer& peer : peers) peer.HearTheEnd();
  CHECK(ground.healthy->Trouble() == "");
}

TEST_CASE("a request that trickles in is refused after the time that its size may take") {
  LogLines log;
  // Its pool holds one such request: the memory must come back.
  TcpOptions tcp;
  tcp.receive_pool_bytes = 96 << 20;
  Ground ground({.keepalive = {.stall_timeout = milliseconds(100),
                               .min_bytes_per_second = uint64_t{1} << 30}},
                tcp);
  for (int i = 0; i < 3; ++i) {
    Peer peer = Peer::Connect(ground.endpoint);
    REQUIRE(peer.Say(Greeting() + Begin(1, Head(Ask(1)), 64 << 20) + Chunk(1, 0, "a")));
    const std::optional<Heard> reply = peer.Hear(kReply);
    REQUIRE(reply);
    CHECK(reply->header.status == static_cast<int>(absl::StatusCode::kUnavailable));
    CHECK(reply->header.flags == kNotRun);
    CHECK_THAT(reply->reason, Contains("came too slowly") && Contains("min_bytes_per_second"));
    // The connection goes on, and what still comes of the payload is thrown away.
    REQUIRE(peer.Say(Chunk(1, 1, "b") + Abort(1) + AskMessage(2)));
    const std::optional<Heard> next = peer.Hear(kReply);
    REQUIRE(next);
    CHECK(next->header.call == 2);
    CHECK(next->header.status == 0);
    CHECK(peer.abandons() == 1);
  }
  CHECK(ground.healthy->Trouble() == "");
}

// ---- memory by announcement ----

TEST_CASE("one caller's announced payloads do not take the memory of all") {
  TcpOptions tcp;
  tcp.receive_pool_bytes = 128 << 20;
  Ground ground({.limits = {.max_held_request_bytes = 64 << 20}}, tcp);
  HealthyCaller with_payloads(ground.endpoint, 1 << 20);
  REQUIRE(with_payloads.Trouble() == "");
  Peer peer = Peer::Connect(ground.endpoint);
  std::string much = Greeting();
  constexpr uint32_t kCalls = 100;
  for (uint32_t i = 1; i <= kCalls; ++i) much += Begin(i, Head(Ask(i)), 32 << 20);
  REQUIRE(peer.Say(much));
  for (uint32_t i = 3; i <= kCalls; ++i) {  // two fit
    const std::optional<Heard> reply = peer.Hear(kReply);
    REQUIRE(reply);
    CHECK(reply->header.call == i);
    CHECK(reply->header.flags == kNotRun);
    CHECK(reply->header.status == static_cast<int>(absl::StatusCode::kResourceExhausted));
    CHECK_THAT(reply->reason, Contains("max_held_request_bytes"));
  }
  // A small call beside them is served.
  REQUIRE(peer.Say(AskMessage(1000)));
  CHECK(peer.Hear(kReply).value().header.status == 0);
  CHECK(with_payloads.Trouble(5) == "");
  CHECK(ground.healthy->Trouble() == "");
}

TEST_CASE("one request that is larger than what is held for a caller comes alone") {
  Ground ground({.limits = {.max_held_request_bytes = 1 << 20}});
  Peer peer = Peer::Connect(ground.endpoint);
  std::string body = AskBody();
  body.resize(2 << 20);
  for (uint32_t i = 1; i <= 2; ++i) {
    REQUIRE(peer.Say((i == 1 ? Greeting() : "") + Transfer(i, Head(Ask(i)), body)));
    CHECK(peer.Hear(kReply).value().header.status == 0);
  }
}

// ---- peers that do not read ----

TEST_CASE("a caller that asks for large replies and never reads: bounded, then cut off") {
  LogLines log;
  TcpOptions tcp = SmallSockets();
  tcp.send_pool_bytes = 48 << 20;  // the healthy caller's replies come from it, too
  Ground ground({.limits = {.max_unread_reply_bytes = 4 << 20},
                 .keepalive = {.ping_after = milliseconds(500),
                               .ping_timeout = milliseconds(2000),
                               .stall_timeout = milliseconds(3000)}},
                tcp);
  const Usage before = Usage::Now();
  Peer peer = NeverReads(ground);
  const std::string body = AskBody("big", 60'000);
  for (uint64_t id = 1; id <= 3000; ++id) {  // 180 MB of replies
    if (!peer.Say(Message(Head(Ask(id)), body))) break;
  }
  const auto seen = [&] { return ground.server.stats(); };
  REQUIRE(testing::Eventually([&] { return seen().calls_refused > 0; }));
  REQUIRE(testing::Eventually([&] {
    return seen().calls_started + seen().calls_refused >= 3000 || seen().connections_open <= 1;
  }));
  const Usage full = Usage::Now();
  if (full.resident_bytes > 0) CHECK(full.resident_bytes < before.resident_bytes + (32 << 20));
  // It talks on, so that nobody takes it for dead.
  const std::string pong = Message(Bytes(Header{.type = kPong, .call = 1}));
  REQUIRE(testing::Eventually([&] {
    std::this_thread::sleep_for(milliseconds(10));
    return !peer.Say(pong) || log.all().find("does not read: ") != std::string::npos;
  }));
  CHECK(log.Saw("keepalive.stall_timeout"));
  CHECK(ground.healthy->Trouble() == "");
  CHECK(ground.Quiet());
}

// Each answer is small, but there are ever more of them.
void CheckAnswersBounded(const std::string& question) {
  LogLines log;
  Ground ground({.limits = {.max_unread_answers = 2000}}, SmallSockets());
  const Usage before = Usage::Now();
  Peer peer = NeverReads(ground);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += question;
  const std::string bound =
      "does not read its answers: 2000 wait already (limits.max_unread_answers)";
  REQUIRE(testing::Eventually([&] {
    peer.Say(many);
    return log.all().find(bound) != std::string::npos;
  }));
  peer.HearTheEnd();
  CHECK(ground.Quiet());
  CHECK(ground.healthy->Trouble() == "");
  const Usage after = Usage::Now();
  if (after.resident_bytes > 0) {
    CHECK(after.resident_bytes < before.resident_bytes + (32 << 20));
  }
}

TEST_CASE("a caller that sends PINGs and never reads is cut off") {
  CheckAnswersBounded(Message(Bytes(Header{.call = 1})));
}

TEST_CASE("a caller that sends requests of unknown methods and never reads is cut off") {
  Header ask = Ask(1);
  ask.method = 1;
  CheckAnswersBounded(Message(Bytes(ask)));
}

TEST_CASE("a caller that makes good calls and never reads is cut off") {
  CheckAnswersBounded(AskMessage(1));
}

// ---- ids ----

TEST_CASE("an id used again after CANCEL, while its handler still runs, ends the connection") {
  LogLines log;
  Ground ground(CaseOptions());
  Header wait = Ask(1);
  wait.method = testing::Blocker::BlockMethod::info().id;
  Peer peer = Peer::Connect(ground.endpoint);
  std::atomic<bool> held{true};
  ground.blocker.on_block = [&] {
    while (held) std::this_thread::sleep_for(milliseconds(1));
  };
  REQUIRE(peer.Say(Greeting() + Message(Bytes(wait), AskBody())));
  REQUIRE(testing::Eventually([&] { return ground.blocker.ran == 1; }));
  REQUIRE(peer.Say(Message(Bytes(Header{.type = kCancel, .call = 1})) + AskMessage(1)));
  const std::optional<Heard> bye = peer.Hear(kGoAway);
  REQUIRE(bye);
  CHECK_THAT(bye->reason, Contains("a call id that is in flight already"));
  held = false;
  CHECK(ground.healthy->Trouble() == "");
}

// ---- memory ----

TEST_CASE("memory and descriptors stay flat while every fault is played again and again") {
  LogLines log;
  Ground ground(CaseOptions());
  std::vector<Case> cases;
  for (auto& table :
       {RecordCases(), ChunkCases(), HeaderCases(), FieldCases(), HelloCases(), RequestCases()}) {
    cases.insert(cases.end(), table.begin(), table.end());
  }
  const auto play = [&] {
    for (const Case& played : cases) {
      Peer peer = Peer::Connect(ground.endpoint);
      peer.Say(played.bytes);
      peer.Finish();
      peer.HearTheEnd();
    }
    CHECK(ground.Quiet());
    log.Forget();
  };
  play();  // what is kept for reuse
  Rounds rounds;
  for (int round = 0; round < 18; ++round) {
    play();
    rounds.Add();
  }
  CHECK(rounds.Trouble(cases.size()) == "");
  CHECK(ground.healthy->Trouble() == "");
}

}  // namespace
}  // namespace farcall::hostile
