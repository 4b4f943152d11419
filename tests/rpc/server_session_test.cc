// A server against a peer that says what it likes: the documented answer or a closed connection,
// and nobody else is harmed.

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/tests/rpc/scripted.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kMinuteNs = 60'000'000'000;

struct ServerWorld : World {
  explicit ServerWorld(ServerOptions options = {}, TransportLimits transport_limits = {})
      : World(transport_limits) {
    options.external_loops = {loop};
    server = std::make_unique<Server>(std::move(options));
    REQUIRE(server->Add(Probe::Bind(probe)).ok());
    REQUIRE(server->Listen(transport, endpoint).ok());
  }

  ~ServerWorld() {
    // The server waits for its loops while it ends: this thread turns the one that it has.
    std::atomic<bool> gone{false};
    std::thread ending([&] {
      server.reset();
      gone = true;
    });
    while (!gone) Turn();
    ending.join();
    Settle();
    CHECK(pool->stats().leased_bytes == 0);
  }

  std::unique_ptr<Peer> Connect(bool listens = true) {
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
    return std::make_unique<Peer>(*this, std::move(made), listens);
  }

  // After both sides said HELLO.
  std::unique_ptr<Peer> Greeted(const Hello& hello = Peer::UsualHello()) {
    auto peer = Connect();
    peer->SayHello(hello);
    Settle();
    peer->Next(FrameType::kHello);
    return peer;
  }

  ProbeImpl probe;
  std::unique_ptr<Server> server;
};

FrameHeader Request(uint64_t id, const MethodInfo& method = Probe::DoMethod::info(),
                    uint64_t timeout_ns = kMinuteNs) {
  return {.type = FrameType::kRequest, .call = id, .method = method.id, .timeout_ns = timeout_ns};
}

// The peer hears a GOAWAY with `code` whose reason has `text`, and nothing after it.
void CheckEnded(Peer& peer, absl::StatusCode code, const std::string& text) {
  const Heard bye = peer.Next(FrameType::kGoAway);
  CHECK(bye.status.code() == code);
  CHECK_THAT(std::string(bye.status.message()), Catch::Contains(text));
  CHECK(peer.closed());
  CHECK(peer.silent());
}

void CheckServes(ServerWorld& world, Peer& peer) {
  constexpr uint64_t kId = 0xabcdef;
  peer.Say(Request(kId), {}, AskBody(world, "still here"));
  world.Settle();
  const Heard reply = peer.Next(FrameType::kReply);
  CHECK(reply.header.call == kId);
  CHECK(reply.status.ok());
  CHECK(peer.silent());
}

// The next frame refuses call `id`.
void CheckRefused(Peer& peer, uint64_t id, absl::StatusCode code, const std::string& text) {
  const Heard reply = peer.Next(FrameType::kReply);
  CHECK(reply.header.call == id);
  CHECK(reply.header.flags == kFlagNotRun);
  CHECK(reply.status.code() == code);
  CHECK_THAT(std::string(reply.status.message()), Catch::Contains(text));
  CHECK(reply.message.payload_bytes() == 0);
}

// ---- HELLO ----

TEST_CASE("a first frame that is no HELLO ends the connection, and only that one") {
  ServerWorld world;
  const auto bystander = world.Greeted();
  for (const FrameHeader& first : {Request(1), FrameHeader{.type = FrameType::kReply, .call = 1},
                                   FrameHeader{.type = FrameType::kCancel, .call = 1},
                                   FrameHeader{.type = FrameType::kPing, .call = 1},
                                   FrameHeader{.type = FrameType::kPong, .call = 1}}) {
    const auto peer = world.Connect();
    peer->Say(first);
    world.Settle();
    peer->Next(FrameType::kHello);
    CheckEnded(*peer, absl::StatusCode::kInvalidArgument, "a frame before HELLO");
  }
  for (const std::string& noise :
       {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), std::string(),
        std::string(31, 'x'), std::string(4096, '\0'), std::string(32, '\xff')}) {
    const auto peer = world.Connect();
    peer->SayRaw(noise);
    world.Settle();
    peer->Next(FrameType::kHello);
    CheckEnded(*peer, absl::StatusCode::kInvalidArgument, "frame: ");
  }
  CHECK(world.server->stats().connections_open == 1);
  CHECK(world.probe.ran == 0);
  CheckServes(world, *bystander);
}

TEST_CASE("a peer that says no HELLO in time is given up") {
  ServerWorld world({.keepalive = {.handshake_timeout = seconds(5)}});
  const auto peer = world.Connect();
  world.Pass(milliseconds(4990));
  peer->Next(FrameType::kHello);
  CHECK_FALSE(peer->closed());
  world.Pass(milliseconds(20));
  CheckEnded(*peer, absl::StatusCode::kUnavailable, "no HELLO within 5 s");
  CHECK(world.server->stats().connections_open == 0);
}

TEST_CASE("a HELLO that cannot be accepted is refused with the reason") {
  ServerWorld world;
  const auto refused = [&](const std::function<void(Peer&)>& say, absl::StatusCode code,
                           const std::string& text) {
    const auto peer = world.Connect();
    say(*peer);
    world.Settle();
    peer->Next(FrameType::kHello);
    CheckEnded(*peer, code, text);
  };
  Hello newer = Peer::UsualHello();
  newer.min_version = 2;
  newer.max_version = 3;
  refused([&](Peer& peer) { peer.SayHello(newer); }, absl::StatusCode::kFailedPrecondition,
          "the peer speaks 2 to 3, this side 1");
  const FrameHeader hello{.type = FrameType::kHello, .sequence = 0x00010001, .method = kHelloMagic};
  refused([&](Peer& peer) { peer.Say(hello); }, absl::StatusCode::kInvalidArgument, "no limits");
  refused(
      [&](Peer& peer) {
        peer.Say(hello, {{FieldKind::kLimits, "", "short"}});
      },
      absl::StatusCode::kInvalidArgument, "limits of 5 bytes");
  FrameHeader other = hello;
  other.method = 1;
  refused(
      [&](Peer& peer) {
        peer.Say(other, {{FieldKind::kLimits, "", std::string(32, '\0')}});
      },
      absl::StatusCode::kInvalidArgument, "not a HELLO of Farcall");
  refused(
      [&](Peer& peer) {
        peer.Say(hello, {{FieldKind::kLimits, "", std::string(32, '\0')}}, Garbage(world, 100));
      },
      absl::StatusCode::kInvalidArgument, "a payload on a control frame");
}

TEST_CASE("a request right behind HELLO is served") {
  ServerWorld world;
  const auto peer = world.Connect();
  peer->SayHello();
  peer->Say(Request(1), {}, AskBody(world, "eager"));
  world.Settle();
  peer->Next(FrameType::kHello);
  CHECK(peer->Next(FrameType::kReply).status.ok());
}

TEST_CASE("one connection more than the server takes is refused with the limit") {
  ServerWorld world({.max_connections = 1});
  const auto first = world.Greeted();
  {
    const auto second = world.Connect();
    world.Settle();
    CheckEnded(*second, absl::StatusCode::kResourceExhausted, "max_connections");
  }
  CHECK(world.server->stats().connections_refused == 1);
  CheckServes(world, *first);
}

// ---- violations ----

TEST_CASE("whatever breaks the rules ends its own connection and nobody else's") {
  ServerWorld world;
  const auto bystander = world.Greeted();
  struct Violation {
    std::string reason;
    std::function<void(Peer&)> commit;
  };
  const auto control_with_payload = [&](FrameType type) {
    return [&world, type](Peer& peer) { peer.Say({.type = type}, {}, Garbage(world, 1)); };
  };
  const std::vector<Violation> violations = {
      {"a second HELLO", [](Peer& peer) { peer.SayHello(); }},
      {"unknown frame type 0", [](Peer& peer) { peer.SayRaw(std::string(32, '\0')); }},
      {"unknown frame type 10", [](Peer& peer) { peer.SayRaw("\x0a" + std::string(31, '\0')); }},
      {"unknown flags", [](Peer& peer) { peer.Say({.type = FrameType::kPing, .flags = 1}); }},
      {"shorter than its header", [](Peer& peer) { peer.SayRaw("short"); }},
      {"must be 0", [](Peer& peer) { peer.Say({.type = FrameType::kPing, .sequence = 1}); }},
      {"a REPLY from the side that calls",
       [](Peer& peer) { peer.Say({.type = FrameType::kReply, .call = 1}); }},
      {"without a timeout",
       [](Peer& peer) { peer.Say(Request(1, Probe::DoMethod::info(), /*timeout_ns=*/0)); }},
      {"in a frame of type 2",
       [](Peer& peer) {
         peer.Say(Request(1), {{FieldKind::kStatusMessage, "", "x"}});
       }},
      {"a payload on a control frame", control_with_payload(FrameType::kCancel)},
      {"a payload on a control frame", control_with_payload(FrameType::kPing)},
      {"a payload on a control frame", control_with_payload(FrameType::kPong)},
      {"a payload on a control frame", control_with_payload(FrameType::kGoAway)},
      {"a payload on a control frame",
       [&](Peer& peer) { peer.Say({.type = FrameType::kPing}, {}, {}, Garbage(world, 200'000)); }},
  };
  for (const Violation& violation : violations) {
    CAPTURE(violation.reason);
    const auto peer = world.Greeted();
    violation.commit(*peer);
    world.Settle();
    CheckEnded(*peer, absl::StatusCode::kInvalidArgument, violation.reason);
    CHECK(world.server->stats().connections_open == 1);
  }
  CHECK(world.probe.ran == 0);
  CheckServes(world, *bystander);
}

TEST_CASE("an id that is in flight already ends the connection and cancels its calls") {
  ServerWorld world;
  const auto peer = world.Greeted();
  peer->Say(Request(7, Probe::WaitMethod::info()), {}, AskBody(world, "", 60'000));
  world.Settle();
  CHECK(world.probe.ran == 1);
  SECTION("a running call") { peer->Say(Request(7), {}, AskBody(world, "again")); }
  SECTION("a call whose payload is on the way") {
    peer->Say(Request(8), {}, Garbage(world, 10 << 20));
    peer->Say(Request(8), {}, AskBody(world, "again"));
  }
  world.Settle();
  CheckEnded(*peer, absl::StatusCode::kInvalidArgument, "in flight already");
  CHECK(world.probe.ran == 1);
  CHECK(world.probe.cancelled == 1);
  CHECK(world.server->stats().calls_running == 0);
}

TEST_CASE("an id may be used again once it was answered") {
  ServerWorld world;
  const auto peer = world.Greeted();
  for (const uint64_t id : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    for (int i = 0; i < 3; ++i) {
      peer->Say(Request(id), {}, AskBody(world, "again"));
      world.Settle();
      CHECK(peer->Next(FrameType::kReply).header.call == id);
    }
  }
}

// ---- keepalive ----

TEST_CASE("PING is answered with its own value") {
  ServerWorld world;
  const auto peer = world.Greeted();
  for (const uint64_t echo : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    peer->Say({.type = FrameType::kPing, .call = echo});
    world.Settle();
    CHECK(peer->Next(FrameType::kPong).header.call == echo);
  }
}

TEST_CASE("a quiet peer is asked by PING, and given up when nothing comes back") {
  ServerWorld world({.keepalive = {.ping_after = seconds(10), .ping_timeout = seconds(3)}});
  const auto peer = world.Greeted();
  for (int round = 0; round < 3; ++round) {
    world.Pass(milliseconds(9990));
    CHECK(peer->silent());
    world.Pass(milliseconds(20));
    const Heard ping = peer->Next(FrameType::kPing);
    peer->Say({.type = FrameType::kPong, .call = ping.header.call});
    world.Settle();
  }
  world.Pass(seconds(9));
  CheckServes(world, *peer);  // any frame is a sign of life
  world.Pass(seconds(9));
  CHECK(peer->silent());
  world.Pass(seconds(2));
  peer->Next(FrameType::kPing);
  world.Pass(milliseconds(2990));
  CHECK_FALSE(peer->closed());
  world.Pass(milliseconds(20));
  CheckEnded(*peer, absl::StatusCode::kUnavailable, "no answer to PING");
}

TEST_CASE("a payload that trickles in is a sign of life; silence after it is not") {
  ServerWorld world(
      {.keepalive = {
           .ping_after = seconds(10), .ping_timeout = seconds(3), .min_bytes_per_second = 0}});
  const auto peer = world.Greeted();
  peer->Say(Request(1, Probe::DoMethod::info(), UINT64_MAX), {}, Garbage(world, 10 << 20));
  bool whole = false;
  int pings = 0;
  for (int turn = 0; turn < 60; ++turn) {
    world.clock.Advance(seconds(2));
    world.Turn();
    REQUIRE_FALSE(peer->closed());
    if (!peer->silent()) {
      const Heard heard = peer->Next();
      if (heard.header.type == FrameType::kReply) {
        whole = true;
        break;
      }
      CHECK(heard.header.type == FrameType::kPing);  // which this peer never answers
      ++pings;
    }
  }
  CHECK(whole);
  CHECK(pings > 3);
  world.Settle();
  peer->Forget();
  world.Pass(seconds(14));
  world.Pass(seconds(4));
  CHECK(peer->closed());
}

TEST_CASE("a peer that makes work but never reads is dropped") {
  ServerWorld world({}, {.max_queued_messages = 16});
  const auto peer = world.Connect(/*listens=*/false);
  peer->SayHello();
  world.Settle();
  SECTION("PING") {
    for (int i = 0; i < 1100; ++i) {
      peer->Say({.type = FrameType::kPing, .call = 1});
      world.Settle();
    }
  }
  SECTION("requests") {
    for (uint64_t i = 0; i < 1100; ++i) {
      peer->Say(Request(i), {}, AskBody(world, "x"));
      world.Settle();
    }
  }
  CHECK(world.server->stats().connections_open == 0);
}

TEST_CASE("a peer that talks but takes nothing is given up after the stall timeout") {
  ServerWorld world({.keepalive = {.ping_after = seconds(10), .stall_timeout = seconds(30)}});
  const auto peer = world.Connect(/*listens=*/false);
  peer->SayHello();
  for (int i = 0; i < 1100; ++i) {  // more than the wire takes
    peer->Say({.type = FrameType::kPing, .call = 1});
    world.Settle();
  }
  int lived = 0;
  while (world.server->stats().connections_open == 1 && lived < 100) {
    peer->Say({.type = FrameType::kPong, .call = 1});
    world.Pass(seconds(1));
    ++lived;
  }
  CHECK(lived > 30);
  CHECK(lived <= 52);  // it is looked at every ping_after
}

// ---- GOAWAY ----

TEST_CASE("a caller's GOAWAY 0 is no end: its calls go on") {
  ServerWorld world;
  const auto peer = world.Greeted();
  peer->Say({.type = FrameType::kGoAway});
  peer->Say({.type = FrameType::kGoAway});
  world.Settle();
  CheckServes(world, *peer);
}

TEST_CASE("a caller's GOAWAY with a status ends the connection without an answer") {
  for (const bool running : {true, false}) {
    ServerWorld world;
    const auto peer = world.Greeted();
    if (running) {
      peer->Say(Request(1, Probe::WaitMethod::info()), {}, AskBody(world, "", 60'000));
    }
    world.Settle();
    peer->Say({.type = FrameType::kGoAway, .status = 1}, {{FieldKind::kStatusMessage, "", "bye"}});
    world.Settle();
    CHECK(peer->closed());
    CHECK(peer->silent());
    CHECK(world.server->stats().connections_open == 0);
    CHECK(world.probe.cancelled == (running ? 1 : 0));
  }
}

TEST_CASE("a draining server says so, finishes what it has and refuses what comes") {
  ServerWorld world;
  const auto peer = world.Greeted();
  const auto late = world.Connect();
  peer->Say(Request(1), {}, AskBody(world, "before", 0, 10 << 20));
  for (int i = 0; i < 5; ++i) world.Turn();
  world.server->Drain();
  for (int i = 0; i < 3; ++i) world.Turn();
  CHECK(peer->Next(FrameType::kGoAway).status.ok());
  peer->Say(Request(2), {}, AskBody(world, "too late"));
  peer->Say(Request(3), {}, Garbage(world, 10 << 20));
  for (int i = 0; i < 3; ++i) world.Turn();
  CheckRefused(*peer, 2, absl::StatusCode::kUnavailable, "shutting down");
  CheckRefused(*peer, 3, absl::StatusCode::kUnavailable, "shutting down");
  CHECK(peer->silent());
  world.Settle();
  const Heard reply = peer->Next(FrameType::kReply);
  CHECK(reply.header.call == 1);
  CHECK(reply.status.ok());
  CHECK_FALSE(peer->closed());

  late->SayHello();  // it connected before
  world.Settle();
  late->Next(FrameType::kHello);
  while (!late->silent()) CHECK(late->Next(FrameType::kGoAway).status.ok());
  late->Say(Request(1), {}, AskBody(world, "too late"));
  world.Settle();
  CheckRefused(*late, 1, absl::StatusCode::kUnavailable, "shutting down");
  CHECK(world.probe.ran == 1);
}

// ---- requests that are refused ----

TEST_CASE("an unknown method is UNIMPLEMENTED, not run, and the connection goes on") {
  ServerWorld world;
  const auto peer = world.Greeted();
  for (const uint64_t method : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    FrameHeader request = Request(1);
    request.method = method;
    peer->Say(request, {}, Garbage(world, 200'000));
    world.Settle();
    CheckRefused(*peer, 1, absl::StatusCode::kUnimplemented, "farcall.testing.Probe");
  }
  peer->Say(Request(1, Probe::WatchMethod::info()), {}, AskBody(world, ""));
  world.Settle();
  CheckRefused(*peer, 1, absl::StatusCode::kUnimplemented, "no streams");
  CheckServes(world, *peer);
  CHECK(world.server->stats().calls_refused == 4);
}

TEST_CASE("a request over a limit is refused by name, not run, and the connection goes on") {
  ServerWorld world({.limits = {.max_body_bytes = 100'000, .max_attachment_bytes = 1000}});
  const auto peer = world.Greeted();
  peer->Say(Request(1), {}, Garbage(world, 100'001));
  peer->Say(Request(2), {}, Garbage(world, 20 << 20));
  peer->Say(Request(3), {}, AskBody(world, ""), Garbage(world, 1001));
  world.Settle();
  CheckRefused(*peer, 1, absl::StatusCode::kResourceExhausted,
               "100001 bytes; this server takes 100000 (ServerOptions::limits.max_body_bytes)");
  CheckRefused(*peer, 2, absl::StatusCode::kResourceExhausted, "max_body_bytes");
  CheckRefused(*peer, 3, absl::StatusCode::kResourceExhausted,
               "1001 bytes; this server takes 1000 (ServerOptions::limits.max_attachment_bytes)");
  CHECK(world.probe.ran == 0);
  peer->Say(Request(4), {}, AskBody(world, ""), Garbage(world, 1000));  // exactly the limit
  world.Settle();
  CHECK(peer->Next(FrameType::kReply).status.ok());
  CheckServes(world, *peer);
}

TEST_CASE("a body that does not verify is INVALID_ARGUMENT, not run, and the connection goes on") {
  ServerWorld world;
  const auto peer = world.Greeted();
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{3}, size_t{4}, size_t{100}, size_t{200'000}}) {
    peer->Say(Request(5), {}, bytes == 0 ? Buffer() : Garbage(world, bytes));
    world.Settle();
    CheckRefused(*peer, 5, absl::StatusCode::kInvalidArgument, "farcall.testing.Probe/Do");
  }
  Buffer cut = AskBody(world, "cut short", 0, 100);
  cut.SetView(static_cast<size_t>(cut.data() - cut.slot()->base), cut.size() - 8);
  peer->Say(Request(5), {}, std::move(cut));
  world.Settle();
  CheckRefused(*peer, 5, absl::StatusCode::kInvalidArgument, "farcall.testing.Probe/Do");
  CHECK(world.probe.ran == 0);
  CheckServes(world, *peer);
}

TEST_CASE("the verifier's limits are the server's options") {
  for (const uint32_t max_tables : {0U, 1U}) {
    ServerWorld world({.limits = {.max_tables = max_tables}});
    const auto peer = world.Greeted();
    peer->Say(Request(1), {}, AskBody(world, "one table"));
    world.Settle();
    CHECK(peer->Next(FrameType::kReply).status.code() ==
          (max_tables == 1 ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument));
  }
}

TEST_CASE("more calls at once than the server serves are refused, not run") {
  ServerWorld world({.limits = {.max_calls_in_flight = 2}});
  const auto peer = world.Greeted();
  const auto other = world.Greeted();
  for (uint64_t id = 1; id <= 3; ++id) {
    peer->Say(Request(id, Probe::WaitMethod::info()), {}, AskBody(world, "", 60'000));
  }
  world.Settle();
  CheckRefused(*peer, 3, absl::StatusCode::kResourceExhausted, "limits.max_calls_in_flight");
  CHECK(world.probe.ran == 2);
  CheckServes(world, *other);
  peer->Say({.type = FrameType::kCancel, .call = 1});
  world.Settle();
  CHECK(world.probe.cancelled == 1);
  CheckServes(world, *peer);
}

TEST_CASE(
    "calls hold no more bytes together than the limit, but small ones and a first large one") {
  ServerWorld world({.limits = {.max_held_request_bytes = 200'000}});
  const auto peer = world.Greeted();
  const auto wait = [&](uint64_t id, size_t attachment) {
    peer->Say(Request(id, Probe::WaitMethod::info()), {}, AskBody(world, "", 60'000),
              attachment == 0 ? Buffer() : Garbage(world, attachment));
    world.Settle();
  };
  wait(1, 300'000);
  wait(2, 70'000);
  CheckRefused(*peer, 2, absl::StatusCode::kResourceExhausted, "limits.max_held_request_bytes");
  wait(3, 60'000);
  CHECK(world.probe.ran == 2);
  peer->Say({.type = FrameType::kCancel, .call = 1});
  world.Settle();
  wait(4, 100'000);
  CHECK(world.probe.ran == 3);
  wait(5, 100'000);
  CheckRefused(*peer, 5, absl::StatusCode::kResourceExhausted, "limits.max_held_request_bytes");
  CheckServes(world, *peer);
}

// ---- time ----

TEST_CASE("a request that is not whole after the time that its size may take is refused, not run") {
  ServerWorld world(
      {.keepalive = {.stall_timeout = seconds(3), .min_bytes_per_second = uint64_t{64} << 20}});
  const auto peer = world.Greeted();
  peer->Say(Request(1), {}, Garbage(world, 128 << 20));  // 3 s and 2 s
  for (int i = 0; i < 5; ++i) world.Turn();
  world.clock.Advance(milliseconds(4900));
  world.Turn();
  CHECK(peer->silent());
  world.clock.Advance(milliseconds(200));
  world.Settle();
  CheckRefused(*peer, 1, absl::StatusCode::kUnavailable, "came too slowly");
  CHECK(world.probe.ran == 0);
  CheckServes(world, *peer);
}

TEST_CASE("the longest timeout there is does not overflow") {
  ServerWorld world;
  const auto peer = world.Greeted();
  for (const uint64_t timeout : {UINT64_MAX, uint64_t{1} << 63, uint64_t{1}}) {
    peer->Say(Request(1, Probe::DoMethod::info(), timeout), {}, AskBody(world, "deadline"));
    world.Settle();
    const Heard reply = peer->Next(FrameType::kReply);
    REQUIRE(reply.status.ok());
    const auto* answer = flatbuffers::GetRoot<Answer>(reply.message.body.data());
    const int64_t left_ms = std::stoll(answer->text()->str());
    CHECK(left_ms >= 0);
    CHECK(left_ms <= int64_t{366} * 24 * 3600 * 1000);
    CHECK((timeout == 1 || left_ms > int64_t{300} * 24 * 3600 * 1000));
  }
}

TEST_CASE("a deadline cancels the handler; no reply follows") {
  ServerWorld world;
  const auto peer = world.Greeted();
  peer->Say(Request(1, Probe::WaitMethod::info(), 5'000'000), {}, AskBody(world, "", 60'000));
  world.Settle();
  CHECK(world.probe.ran == 1);
  world.Pass(milliseconds(10));
  CHECK(world.probe.cancelled == 1);
  CHECK(peer->silent());
  CHECK(world.server->stats().calls_running == 0);
  CheckServes(world, *peer);
}

TEST_CASE("a deadline that passes while the payload is on its way: refused, not run") {
  ServerWorld world;
  const auto peer = world.Greeted();
  peer->Say(Request(1, Probe::DoMethod::info(), 5'000'000), {}, AskBody(world, "", 0, 10 << 20));
  for (int i = 0; i < 5; ++i) world.Turn();
  CHECK(peer->silent());
  world.Pass(milliseconds(10));
  CheckRefused(*peer, 1, absl::StatusCode::kDeadlineExceeded, "before its request was whole");
  CHECK(world.probe.ran == 0);
  CheckServes(world, *peer);
}

// ---- CANCEL ----

TEST_CASE("CANCEL stops a payload, a handler, or nothing at all") {
  ServerWorld world;
  const auto peer = world.Greeted();
  for (const uint64_t id : {uint64_t{0}, uint64_t{77}, UINT64_MAX}) {
    peer->Say({.type = FrameType::kCancel, .call = id});  // it crossed the reply
  }
  world.Settle();
  CHECK(peer->silent());

  peer->Say(Request(1), {}, AskBody(world, "", 0, 10 << 20));
  for (int i = 0; i < 5; ++i) world.Turn();
  peer->Say({.type = FrameType::kCancel, .call = 1});
  world.Settle();
  CHECK(peer->silent());
  CHECK(world.probe.ran == 0);

  peer->Say(Request(1, Probe::WaitMethod::info()), {}, AskBody(world, "", 60'000));
  world.Settle();
  peer->Say({.type = FrameType::kCancel, .call = 1});
  peer->Say({.type = FrameType::kCancel, .call = 1});
  world.Settle();
  CHECK(world.probe.cancelled == 1);
  CHECK(peer->silent());
  CHECK(world.server->stats().calls_running == 0);
  CheckServes(world, *peer);
}

// ---- the end ----

TEST_CASE("a connection that goes takes its calls along, wherever they are") {
  ServerWorld world;
  const auto bystander = world.Greeted();
  {
    const auto peer = world.Greeted();
    peer->Say(Request(1, Probe::WaitMethod::info()), {}, AskBody(world, "", 60'000));
    peer->Say(Request(2), {}, AskBody(world, "", 0, 10 << 20));  // on its way
    peer->Say(Request(3), {}, AskBody(world, "big", 10 << 20));  // whose reply is on its way
    for (int i = 0; i < 6; ++i) world.Turn();
    CHECK(world.probe.ran == 2);
  }
  world.Settle();
  CHECK(world.probe.cancelled == 1);
  CHECK(world.server->stats().connections_open == 1);
  CHECK(world.server->stats().calls_running == 0);
  CheckServes(world, *bystander);
}

TEST_CASE("a reply that the caller does not take is said by name") {
  ServerWorld world;
  Hello small = Peer::UsualHello();
  small.max_body_bytes = 1000;
  const auto peer = world.Greeted(small);
  peer->Say(Request(1), {}, AskBody(world, "big", 5000));
  world.Settle();
  const Heard reply = peer->Next(FrameType::kReply);
  CHECK(reply.status.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(reply.status.message()), Catch::Contains("max_body_bytes"));
  CHECK(reply.header.flags == 0);  // it did run
  CheckServes(world, *peer);
}

}  // namespace
}  // namespace farcall::testing
