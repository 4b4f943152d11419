// A channel against a server that says what it likes.

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "farcall/rpc/outcome.h"
#include "farcall/tests/rpc/scripted.h"
#include "farcall/tests/rpc/scripted_server.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kOk = absl::StatusCode::kOk;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

void CheckAnswers(ClientWorld& world, Peer& peer) {
  const auto asked = world.Ask("still here");
  world.Settle();
  const Heard request = peer.Next(FrameType::kRequest);
  peer.Say(ReplyTo(request), {}, AnswerBody(world, "here"));
  world.Settle();
  CheckEnded(*asked, kOk, Outcome::kAnswered);
  REQUIRE(asked->answer);
  CHECK((*asked->answer)->text()->str() == "here");
}

void CheckDropped(Peer& peer, const std::string& text) {
  const Heard bye = peer.Next(FrameType::kGoAway);
  CHECK(bye.status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(bye.status.message()), Catch::Contains(text));
  CHECK(peer.closed());
  CHECK(peer.silent());
}

// ---- what a channel says ----

TEST_CASE("a request says what was asked for") {
  ClientWorld world;
  const auto peer = world.Ready();
  const auto asked = world.Ask("hello", {.timeout = milliseconds(7), .metadata = {{"k", "v"}}});
  world.Settle();
  const Heard request = peer->Next(FrameType::kRequest);
  CHECK(request.header.method == MethodId("farcall.testing.Probe/Do"));
  CHECK(request.header.timeout_ns == 7'000'000);
  CHECK(request.metadata.Find("k") == "v");
  CHECK(flatbuffers::GetRoot<Ask>(request.message.body.data())->action()->str() == "hello");
  peer->Say(ReplyTo(request), {{FieldKind::kMetadata, "r", "w"}}, AnswerBody(world, "hi"));
  world.Settle();
  CheckEnded(*asked, kOk, Outcome::kAnswered);
  CHECK(asked->info.reply_metadata.Find("r") == "w");
}

TEST_CASE("nothing is sent before the server's HELLO") {
  ClientWorld world;
  world.Dial();
  const auto asked = world.Ask("early");
  world.Settle();
  const auto peer = world.Accept();
  peer->Next(FrameType::kHello);
  CHECK(peer->silent());
  peer->SayHello();
  world.Settle();
  const Heard request = peer->Next(FrameType::kRequest);
  peer->Say(ReplyTo(request), {}, AnswerBody(world, "hi"));
  world.Settle();
  CheckEnded(*asked, kOk, Outcome::kAnswered);
}

TEST_CASE("what the server's HELLO does not take is refused before it is sent") {
  ClientWorld world;
  Hello small = Peer::UsualHello();
  small.max_body_bytes = 1000;
  small.max_attachment_bytes = 10;
  const auto peer = world.Ready(small);
  const auto large = world.Ask("", {}, 5000);
  world.Settle();
  CheckEnded(*large, absl::StatusCode::kResourceExhausted, Outcome::kNotSent, "max_body_bytes");
  Builder<farcall::testing::Ask> request = Asking(*world.client, "");
  request.Attach(*request.AllocateAttachment(11));
  absl::Status status;
  world.client->AsyncDo(std::move(request), {},
                        [&](const absl::StatusOr<Msg<Answer>>& reply) { status = reply.status(); });
  world.Settle();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(status.message()), Catch::Contains("max_attachment_bytes"));
  CHECK(peer->silent());
  CheckAnswers(world, *peer);
}

TEST_CASE("no more calls at once than the server's HELLO serves") {
  ClientWorld world;
  Hello narrow = Peer::UsualHello();
  narrow.max_calls_in_flight = 2;
  const auto peer = world.Ready(narrow);
  std::vector<std::shared_ptr<Asked>> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(world.Ask(std::to_string(i)));
  world.Settle();
  for (size_t answered = 0; answered < 5; ++answered) {
    const Heard request = peer->Next(FrameType::kRequest);
    CHECK(flatbuffers::GetRoot<Ask>(request.message.body.data())->action()->str() ==
          std::to_string(answered));  // in order
    peer->Say(ReplyTo(request), {}, AnswerBody(world, ""));
    world.Settle();
    CHECK(calls[answered]->ended == 1);
  }
  CHECK(peer->silent());
}

TEST_CASE("a channel that may keep nothing waiting still makes calls") {
  ClientWorld world({.max_waiting_calls = 0});
  const auto peer = world.Ready();
  CheckAnswers(world, *peer);
}

// ---- HELLO ----

TEST_CASE("a server that begins with something else is left; waiting calls say why") {
  for (const FrameHeader& first :
       {FrameHeader{.type = FrameType::kRequest, .timeout_ns = 1},
        FrameHeader{.type = FrameType::kReply}, FrameHeader{.type = FrameType::kCancel},
        FrameHeader{.type = FrameType::kPing}, FrameHeader{.type = FrameType::kPong}}) {
    ClientWorld world;
    world.Dial();
    const auto peer = world.Accept();
    const auto asked = world.Ask("x");
    peer->Say(first);
    world.Settle();
    peer->Next(FrameType::kHello);
    CheckDropped(*peer, "a frame before HELLO");
    CheckEnded(*asked, kUnavailable, Outcome::kNotSent, "a frame before HELLO");
  }
}

TEST_CASE("a server that is something else, or speaks another version, is left") {
  struct Script {
    std::function<void(Peer&)> say;
    absl::StatusCode told;  // to the calls
    std::string text;
  };
  Hello newer = Peer::UsualHello();
  newer.min_version = newer.max_version = 2;
  const std::vector<Script> scripts = {
      {[](Peer& peer) { peer.SayRaw("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"); },
       kUnavailable, "unknown frame type"},
      {[&](Peer& peer) { peer.SayHello(newer); }, absl::StatusCode::kFailedPrecondition,
       "no protocol version in common"},
      {[](Peer& peer) {
         peer.Say({.type = FrameType::kGoAway, .status = 16},
                  {{FieldKind::kStatusMessage, "", "who are you?"}});
       },
       absl::StatusCode::kUnauthenticated, "who are you?"},
      {[](Peer& peer) { peer.Say({.type = FrameType::kGoAway}); }, kUnavailable, "takes no calls"},
      {[](Peer& peer) { peer.Close(); }, kUnavailable, "closed the connection"},
  };
  for (const Script& script : scripts) {
    CAPTURE(script.text);
    ClientWorld world;
    world.Dial();
    const auto peer = world.Accept();
    const auto asked = world.Ask("x");
    world.Settle();
    script.say(*peer);
    world.Settle();
    CHECK(peer->closed());
    CheckEnded(*asked, script.told, Outcome::kNotSent, script.text);
    CHECK(world.channel_state() == ChannelInfo::State::kBackoff);
  }
}

TEST_CASE("a server that says no HELLO in time is left, and tried again") {
  ClientWorld world({.keepalive = {.handshake_timeout = seconds(5)}});
  world.Dial();
  const auto peer = world.Accept();
  const auto asked = world.Ask("x", {.timeout = seconds(60)});
  world.Pass(milliseconds(4990));
  CHECK(asked->ended == 0);
  world.Pass(milliseconds(20));
  CheckEnded(*asked, kUnavailable, Outcome::kNotSent, "no HELLO within 5 s");
  CHECK(peer->closed());
  world.Pass(seconds(3));
  const auto next = world.Ready();
  CheckAnswers(world, *next);
}

TEST_CASE("an attempt to connect that takes too long is not the call's deadline") {
  ClientWorld world({.connect_timeout = seconds(5)});
  const auto elsewhere = std::make_shared<EventLoop>(
      EventLoopOptions{.clock = &world.clock, .helper_thread = false});  // which nobody turns
  world.Shut();
  auto never = world.transport->Listen(world.endpoint, {elsewhere.get()},
                                       [](EventLoop&, std::unique_ptr<Connection>) {});
  REQUIRE(never.ok());
  world.Dial();
  const auto asked = world.Ask("x", {.timeout = seconds(60)});
  world.Pass(milliseconds(5010));
  CheckEnded(*asked, kUnavailable, Outcome::kNotSent, "loopback://world");
}

// ---- violations ----

TEST_CASE("whatever breaks the rules ends the connection: its calls are lost, the next one works") {
  struct Violation {
    std::string reason;
    std::function<void(ClientWorld&, Peer&, const Heard&)> commit;
  };
  const std::vector<Violation> violations = {
      {"a second HELLO", [](ClientWorld&, Peer& peer, const Heard&) { peer.SayHello(); }},
      {"unknown frame type",
       [](ClientWorld&, Peer& peer, const Heard&) { peer.SayRaw(std::string(32, '\x63')); }},
      {"unknown flags",
       [](ClientWorld&, Peer& peer, const Heard& request) {
         peer.Say(ReplyTo(request, absl::StatusCode::kAborted, 2));
       }},
      {"NOT_RUN on a reply with status OK",
       [](ClientWorld& world, Peer& peer, const Heard& request) {
         peer.Say(ReplyTo(request, kOk, kFlagNotRun), {}, AnswerBody(world, "?"));
       }},
      {"a REQUEST from the side that serves",
       [](ClientWorld&, Peer& peer, const Heard&) {
         peer.Say({.type = FrameType::kRequest, .timeout_ns = 1});
       }},
      {"a CANCEL from the side that serves",
       [](ClientWorld&, Peer& peer, const Heard& request) {
         peer.Say({.type = FrameType::kCancel, .call = request.header.call});
       }},
      {"a payload on a control frame",
       [](ClientWorld& world, Peer& peer, const Heard&) {
         peer.Say({.type = FrameType::kPong}, {}, Garbage(world, 1));
       }},
      {"a payload on a control frame",
       [](ClientWorld& world, Peer& peer, const Heard&) {
         peer.Say({.type = FrameType::kGoAway}, {}, {}, Garbage(world, 1));
       }},
      {"a payload on a REPLY with an error status",
       [](ClientWorld& world, Peer& peer, const Heard& request) {
         peer.Say(ReplyTo(request, absl::StatusCode::kAborted), {}, Garbage(world, 1));
       }},
      {"a second REPLY to one call",
       [](ClientWorld& world, Peer& peer, const Heard& request) {
         peer.Say(ReplyTo(request), {}, AnswerBody(world, "", 10 << 20));
         peer.Say(ReplyTo(request), {}, AnswerBody(world, ""));
       }},
      {"in a frame of type 3",
       [](ClientWorld&, Peer& peer, const Heard& request) {
         peer.Say(ReplyTo(request), {{FieldKind::kAuthentication, "", ""}});
       }},
  };
  for (const Violation& violation : violations) {
    CAPTURE(violation.reason);
    ClientWorld world;
    const auto peer = world.Ready();
    const auto asked = world.Ask("x");
    world.Settle();
    const Heard request = peer->Next(FrameType::kRequest);
    violation.commit(world, *peer, request);
    world.Settle();
    CheckDropped(*peer, violation.reason);
    CheckEnded(*asked, kUnavailable, Outcome::kUnknown, violation.reason);
    const auto next = world.Ready();
    CheckAnswers(world, *next);
  }
}

// ---- replies ----

TEST_CASE("a reply that nobody asked for is counted, skipped, and nothing more") {
  ClientWorld world;
  const auto peer = world.Ready();
  const auto asked = world.Ask("x");
  world.Settle();
  const Heard request = peer->Next(FrameType::kRequest);
  const uint64_t id = request.header.call;
  for (const uint64_t other : {uint64_t{0}, id + 1, id ^ (uint64_t{1} << 32), UINT64_MAX}) {
    peer->Say({.type = FrameType::kReply, .call = other}, {}, AnswerBody(world, "?"));
  }
  peer->Say({.type = FrameType::kReply, .call = id + 2}, {}, Garbage(world, 10 << 20));
  world.Settle();
  CHECK(asked->ended == 0);
  CHECK(world.stats().late_replies == 5);
  peer->Say(ReplyTo(request), {}, AnswerBody(world, "x"));
  world.Settle();
  CheckEnded(*asked, kOk, Outcome::kAnswered);
  peer->Say(ReplyTo(request), {}, AnswerBody(world, "second"));
  world.Settle();
  CHECK(asked->ended == 1);
  CHECK(world.stats().late_replies == 6);
  CheckAnswers(world, *peer);
}

TEST_CASE("a reply that cannot be read is INTERNAL, and the connection goes on") {
  ClientWorld world;
  const auto peer = world.Ready();
  for (const size_t bytes : {size_t{0}, size_t{3}, size_t{100}, size_t{200'000}}) {
    const auto asked = world.Ask("x");
    world.Settle();
    const Heard request = peer->Next(FrameType::kRequest);
    peer->Say(ReplyTo(request), {}, bytes == 0 ? Buffer() : Garbage(world, bytes));
    world.Settle();
    CHECK(asked->ended == 1);
    CHECK(asked->status.code() == absl::StatusCode::kInternal);
    CHECK_THAT(std::string(asked->status.message()),
               Catch::Contains("farcall.testing.Probe/Do") && Catch::Contains("loopback://world"));
  }
  CheckAnswers(world, *peer);
}

TEST_CASE("a reply over a limit names it; the server did answer; the connection goes on") {
  ClientWorld world({.limits = {.max_body_bytes = 10'000, .max_attachment_bytes = 100}});
  const auto peer = world.Ready();
  for (const bool body : {true, false}) {
    const auto asked = world.Ask("x");
    world.Settle();
    const Heard request = peer->Next(FrameType::kRequest);
    if (body) {
      peer->Say(ReplyTo(request), {}, AnswerBody(world, "", 10 << 20));
    } else {
      peer->Say(ReplyTo(request), {}, AnswerBody(world, ""), Garbage(world, 101));
    }
    world.Settle();
    CheckEnded(*asked, absl::StatusCode::kResourceExhausted, Outcome::kAnswered,
               body ? "limits.max_body_bytes" : "limits.max_attachment_bytes");
    CHECK_THAT(std::string(asked->status.message()), Catch::Contains("loopback://world"));
    CHECK(asked->info.peer == "loopback://world");
  }
  CheckAnswers(world, *peer);
}

TEST_CASE("an error reply arrives with all that it says, but the outcome is decided here") {
  ClientWorld world;
  const auto peer = world.Ready();
  for (const char* word : {"not sent", "not run", "unknown"}) {
    const auto asked = world.Ask("x");
    world.Settle();
    const Heard request = peer->Next(FrameType::kRequest);
    peer->Say(ReplyTo(request, absl::StatusCode::kAborted),
              {{FieldKind::kStatusMessage, "", "no"},
               {FieldKind::kStatusPayload, kOutcomePayload, word},
               {FieldKind::kStatusPayload, "other", "kept"}});
    world.Settle();
    CheckEnded(*asked, absl::StatusCode::kAborted, Outcome::kAnswered, "no");
    CHECK_FALSE(asked->status.GetPayload(kOutcomePayload).has_value());
    CHECK(asked->status.GetPayload("other") == absl::Cord("kept"));
  }
  const auto refused = world.Ask("x");
  world.Settle();
  peer->Say(ReplyTo(peer->Next(FrameType::kRequest), kUnavailable, kFlagNotRun),
            {{FieldKind::kStatusPayload, kOutcomePayload, "unknown"},
             {FieldKind::kStatusPayload, "other", "kept"}});
  world.Settle();
  CheckEnded(*refused, kUnavailable, Outcome::kNotRun, "farcall.testing.Probe/Do: ");
  CHECK(refused->status.GetPayload("other") == absl::Cord("kept"));
  CHECK(world.stats().not_run == 1);
}

TEST_CASE("an info that is used again tells of the later call only") {
  ClientWorld world;
  const auto peer = world.Ready();
  const auto asked = world.Ask("x");
  world.Settle();
  peer->Say(ReplyTo(peer->Next(FrameType::kRequest)), {{FieldKind::kMetadata, "k", "v"}},
            AnswerBody(world, "x"));
  world.Settle();
  CheckEnded(*asked, kOk, Outcome::kAnswered);
  CHECK(asked->info.reply_metadata.size() == 1);
  world.client->AsyncDo(world.client->NewDo(), {.info = &asked->info},
                        [](const absl::StatusOr<Msg<Answer>>& reply) { CHECK_FALSE(reply.ok()); });
  world.Settle();
  CHECK(asked->info.outcome == Outcome::kNotSent);
  CHECK(asked->info.reply_metadata.empty());
}

// ---- keepalive ----

TEST_CASE("a quiet server is asked by PING, and left when nothing comes back") {
  ClientWorld world({.keepalive = {.ping_after = seconds(10), .ping_timeout = seconds(3)}});
  const auto peer = world.Ready();
  const auto asked = world.Ask("x", {.timeout = seconds(60)});
  world.Settle();
  peer->Next(FrameType::kRequest);
  peer->Say({.type = FrameType::kPing, .call = 99});
  world.Settle();
  CHECK(peer->Next(FrameType::kPong).header.call == 99);
  world.Pass(milliseconds(10'010));
  peer->Say({.type = FrameType::kPong, .call = peer->Next(FrameType::kPing).header.call});
  world.Settle();
  world.Pass(milliseconds(10'010));
  peer->Next(FrameType::kPing);
  world.Pass(milliseconds(2'980));
  CHECK_FALSE(peer->closed());
  world.Pass(milliseconds(30));
  CHECK(peer->Next(FrameType::kGoAway).status.code() == kUnavailable);
  CHECK(peer->closed());
  CheckEnded(*asked, kUnavailable, Outcome::kUnknown, "no answer to PING");
}

TEST_CASE("a reply that trickles in keeps its connection") {
  ClientWorld world({.keepalive = {.ping_after = seconds(10), .ping_timeout = seconds(3)}});
  const auto peer = world.Ready();
  const auto asked = world.Ask("x", {.timeout = std::chrono::hours(1)});
  world.Settle();
  peer->Say(ReplyTo(peer->Next(FrameType::kRequest)), {}, AnswerBody(world, "", 10 << 20));
  for (int turn = 0; turn < 60 && asked->ended == 0; ++turn) {
    world.clock.Advance(seconds(2));
    world.Turn();
    REQUIRE_FALSE(peer->closed());
  }
  CheckEnded(*asked, kOk, Outcome::kAnswered);
}

// ---- GOAWAY ----

TEST_CASE("a draining server carries its calls to their end; new ones go elsewhere") {
  ClientWorld world;
  const auto old = world.Ready();
  const auto before = world.Ask("before");
  world.Settle();
  const Heard request = old->Next(FrameType::kRequest);
  old->Say({.type = FrameType::kGoAway});
  old->Say({.type = FrameType::kGoAway});  // once more changes nothing
  world.Settle();
  const auto after = world.Ask("after");
  const auto next = world.Ready();
  CHECK(old->silent());
  next->Say(ReplyTo(next->Next(FrameType::kRequest)), {}, AnswerBody(world, ""));
  world.Settle();
  CheckEnded(*after, kOk, Outcome::kAnswered);
  CHECK_FALSE(old->closed());
  old->Say(ReplyTo(request), {}, AnswerBody(world, ""));
  world.Settle();
  CheckEnded(*before, kOk, Outcome::kAnswered);
  CHECK(old->closed());
  CheckAnswers(world, *next);
}

TEST_CASE("a draining server without calls is left at once") {
  ClientWorld world;
  const auto old = world.Ready();
  old->Say({.type = FrameType::kGoAway});
  world.Settle();
  CHECK(old->closed());
  const auto next = world.Ready();
  CheckAnswers(world, *next);
}

TEST_CASE("a server's GOAWAY with a status loses the calls and says why") {
  ClientWorld world;
  const auto peer = world.Ready();
  const auto asked = world.Ask("x");
  world.Settle();
  peer->Say({.type = FrameType::kGoAway, .status = 8},
            {{FieldKind::kStatusMessage, "", "too many of you"}});
  world.Settle();
  CheckEnded(*asked, absl::StatusCode::kResourceExhausted, Outcome::kUnknown, "too many of you");
  CHECK(peer->closed());
  const auto next = world.Ready();
  CheckAnswers(world, *next);
}

// ---- losing the connection ----

TEST_CASE("a call that did not leave goes to the next connection; one that did is lost") {
  ClientWorld world;
  world.listens = false;
  const auto deaf = world.Ready();  // its mailbox fills: later calls stay in the send queue
  std::vector<std::shared_ptr<Asked>> calls;
  for (int i = 0; i < 25; ++i) calls.push_back(world.Ask("x", {.wait_for_ready = true}, 60'000));
  world.Settle();
  for (const auto& call : calls) CHECK(call->ended == 0);
  world.listens = true;
  deaf->Close();
  world.Settle();
  size_t lost = 0;
  while (lost < calls.size() && calls[lost]->ended == 1) {
    CheckEnded(*calls[lost++], kUnavailable, Outcome::kUnknown);
  }
  CHECK(lost > 10);
  CHECK(lost < 24);
  const auto next = world.Ready();
  for (size_t i = lost; i < calls.size(); ++i) {
    CHECK(calls[i]->ended == 0);
    next->Say(ReplyTo(next->Next(FrameType::kRequest)), {}, AnswerBody(world, "x"));
    world.Settle();
    CheckEnded(*calls[i], kOk, Outcome::kAnswered);
  }
  CHECK(next->silent());
}

TEST_CASE("a call that a draining connection gives back goes to the ready one at once") {
  ClientWorld world;
  world.listens = false;
  const auto deaf = world.Ready();
  std::vector<std::shared_ptr<Asked>> calls;
  for (int i = 0; i < 25; ++i) calls.push_back(world.Ask("x", {}, 60'000));
  world.Settle();
  world.listens = true;
  deaf->Say({.type = FrameType::kGoAway});
  world.Settle();
  const auto next = world.Ready();
  CHECK(next->silent());
  deaf->Close();
  world.Settle();
  int resent = 0;
  for (; !next->silent(); ++resent) {
    next->Say(ReplyTo(next->Next(FrameType::kRequest)), {}, AnswerBody(world, "x"));
    world.Settle();
  }
  CHECK(resent > 0);
  for (const auto& call : calls) CHECK(call->ended == 1);
}

TEST_CASE("a server that is lost as soon as it is reached is not asked without a pause") {
  ClientWorld world;
  world.Dial();
  int reached = 0;
  bool drains = false;
  SECTION("it closes") {}
  SECTION("it drains") { drains = true; }
  for (int i = 0; i < 50 && !world.accepted.empty(); ++i) {
    const auto peer = world.Accept();
    ++reached;
    peer->SayHello();
    world.Settle();
    if (drains) {
      peer->Say({.type = FrameType::kGoAway});
    } else {
      peer->Close();
    }
    world.Settle();
  }
  CHECK(reached <= 2);  // the first retry is at once
  for (int second = 0; second < 20; ++second) {
    world.Pass(seconds(1));
    if (world.accepted.empty()) continue;
    ++reached;
    const auto peer = world.Accept();
    peer->SayHello();
    world.Settle();
    peer->Close();
    world.Settle();
  }
  CHECK(reached > 5);
  world.Pass(seconds(3));
  const auto peer = world.Ready();
  CheckAnswers(world, *peer);
}

}  // namespace
}  // namespace farcall::testing
