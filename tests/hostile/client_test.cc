// Servers that break the rules, against a real channel over TCP: the call ends as promised, the
// channel goes on, and a healthy channel on the same loop and pool notices nothing.

#include <catch2/catch.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "farcall/rpc/channel.h"
#include "farcall/tests/hostile/client_cases.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/hostile/peer.h"

namespace farcall::hostile {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;
using tcp::testing::RawSocket;

// A call under way, shared with its callback.
struct Asked {
  absl::StatusOr<Msg<testing::Answer>> reply = absl::UnknownError("under way");
  CallInfo info;
  std::atomic<bool> ended{false};
};

// A listening socket that plays the server, and what is attacked: channels on one loop and one
// transport, which a healthy caller of a real server shares.
struct Field {
  explicit Field(const TcpOptions& tcp = {}) : transport(MakeTcpTransport(tcp)) {
    healthy.emplace(ground.endpoint, 100, loop, transport);
  }

  Channel Dial(const KeepaliveOptions& keepalive = {}) const {
    return {transport, listener.address(),
            ChannelOptions{.loop = loop,
                           .limits = {.max_body_bytes = kClientBody, .max_unread_answers = 1000},
                           .keepalive = keepalive}};
  }

  // The next connection, greeted.
  Peer Accept(const LimitsWords& limits = {}) {
    Peer peer(listener.Accept());
    peer.Say(Preamble() + Hello(limits));
    return peer;
  }

  LogLines log;
  std::shared_ptr<EventLoop> loop = std::make_shared<EventLoop>(
      EventLoopOptions{.mode = ProgressMode::kEvent, .dedicated = true});
  std::shared_ptr<Transport> transport;
  RawSocket listener = RawSocket::Listen(*ParseEndpoint("tcp://127.0.0.1:0"), 1024);
  Ground ground;
  std::optional<HealthyCaller> healthy;
};

void Start(const Channel& channel, const std::shared_ptr<Asked>& asked,
           Duration timeout = seconds(20)) {
  testing::Probe::Client client(channel);
  client.AsyncDo(testing::Asking(client, "x"),
                 {.timeout = timeout, .wait_for_ready = true, .info = &asked->info},
                 [asked](absl::StatusOr<Msg<testing::Answer>> reply) {
                   asked->reply = std::move(reply);
                   asked->ended = true;
                 });
}

bool Ended(const std::shared_ptr<Asked>& asked) {
  return testing::Eventually([&] { return asked->ended.load(); }, seconds(15));
}

// The next call of the channel is served by `peer`.
void CheckServedBy(const Channel& channel, Peer& peer) {
  const auto next = std::make_shared<Asked>();
  Start(channel, next);
  const std::optional<Heard> request = peer.Hear(kRequest);
  REQUIRE(request);
  peer.Say(GoodReply(request->header.call));
  REQUIRE(Ended(next));
  CHECK(next->reply.ok());
}

void Play(Field& field, const ClientCase& played) {
  CAPTURE(played.name);
  // Its own address: the last channel may still have tried to connect again.
  field.listener = RawSocket::Listen(*ParseEndpoint("tcp://127.0.0.1:0"), 16);
  Channel channel = field.Dial();
  const auto asked = std::make_shared<Asked>();
  Start(channel, asked);
  Peer peer = field.Accept();
  const std::optional<Heard> request = peer.Hear(kRequest);
  REQUIRE(request);
  peer.Say(played.bytes(request->header.call));
  REQUIRE(Ended(asked));
  CHECK(asked->reply.status().code() == played.code);
  CHECK(asked->info.outcome == played.outcome);
  CHECK_THAT(std::string(asked->reply.status().message()), Contains(played.says));
  if (played.connection == Connection::kKept) {
    CheckServedBy(channel, peer);
  } else {
    peer.HearTheEnd();
    Peer again = field.Accept();
    CheckServedBy(channel, again);
  }
}

void PlayAll(const std::vector<ClientCase>& cases) {
  Field field;
  for (const ClientCase& played : cases) Play(field, played);
  CHECK(field.healthy->Trouble() == "");
}

TEST_CASE("a server's records and chunks, bent") { PlayAll(BrokenWireCases()); }
TEST_CASE("a server's headers, fields and frames, bent") { PlayAll(BrokenFrameCases()); }
TEST_CASE("replies that are wrong or unwanted") { PlayAll(BadReplyCases()); }

// ---- HELLO ----

TEST_CASE("a server whose HELLO cannot be accepted is left, and the call says why") {
  struct Greets {
    std::string bytes, says;
  };
  const std::string limits = Bytes(FieldWords{.kind = kLimits, .value = Bytes(LimitsWords{})});
  Header other = HelloHeader();
  other.method = 1;
  for (const Greets& greets : std::vector<Greets>{
           {"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP"},
           {Preamble(2), "speaks version 2"},
           {Preamble() + Message(Bytes(HelloHeader(2, 3)) + limits), "the peer speaks 2 to 3"},
           {Preamble() + Message(Bytes(other) + limits), "not a HELLO of Farcall"},
           {Preamble() + Message(Bytes(HelloHeader())), "it tells no limits"},
           {Preamble() + Hello({.reserved = 1}), "reserved word"},
           {Preamble() + GoodReply(1), "a frame before HELLO"},
           {Preamble() + Message(Bytes(Header{.type = kGoAway, .status = 8})), "ended the conn"}}) {
    CAPTURE(greets.says);
    Field field;
    Channel channel = field.Dial();
    const auto asked = std::make_shared<Asked>();
    testing::Probe::Client client(channel);
    client.AsyncDo(testing::Asking(client, "x"), {.info = &asked->info},
                   [asked](absl::StatusOr<Msg<testing::Answer>> reply) {
                     asked->reply = std::move(reply);
                     asked->ended = true;
                   });
    Peer peer(field.listener.Accept());
    peer.Say(greets.bytes);
    REQUIRE(Ended(asked));
    CHECK(asked->info.outcome == Outcome::kNotSent);
    CHECK_THAT(std::string(asked->reply.status().message()), Contains(greets.says));
    CHECK(field.healthy->Trouble() == "");
  }
}

TEST_CASE("a server that serves no calls at once: they wait until their deadline, not sent") {
  Field field;
  Channel channel = field.Dial();
  const auto asked = std::make_shared<Asked>();
  Start(channel, asked, milliseconds(1000));
  Peer peer = field.Accept({.calls = 0});
  REQUIRE(Ended(asked));
  CHECK(asked->reply.status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(asked->info.outcome == Outcome::kNotSent);
  CHECK_THAT(std::string(asked->reply.status().message()), Contains("all that it serves at once"));
  CHECK(field.healthy->Trouble() == "");
}

TEST_CASE("a server with limits of 2^64-1 and 2^32-1 calls is taken at its word") {
  Field field;
  Channel channel = field.Dial();
  const auto asked = std::make_shared<Asked>();
  Start(channel, asked);
  Peer peer = field.Accept({.body = ~uint64_t{0},
                            .attachment = ~uint64_t{0},
                            .calls = ~uint32_t{0},
                            .features = ~uint64_t{0}});
  peer.Say(GoodReply(peer.Hear(kRequest).value().header.call));
  REQUIRE(Ended(asked));
  CHECK(asked->reply.ok());
  CheckServedBy(channel, peer);
}

TEST_CASE("a server that takes no bodies: calls are refused before they are sent") {
  Field field;
  Channel channel = field.Dial();
  const auto asked = std::make_shared<Asked>();
  Start(channel, asked);
  Peer peer = field.Accept({.body = 0});
  REQUIRE(Ended(asked));
  CHECK(asked->reply.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(asked->info.outcome == Outcome::kNotSent);
}

// ---- silence, floods and memory ----

TEST_CASE("a server that never answers: the call ends at its deadline") {
  Field field;
  Channel channel = field.Dial();
  const auto asked = std::make_shared<Asked>();
  Start(channel, asked, milliseconds(1000));
  Peer peer = field.Accept();
  REQUIRE(peer.Hear(kRequest));
  REQUIRE(Ended(asked));
  CHECK(asked->reply.status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(asked->info.outcome == Outcome::kUnknown);
  CHECK(peer.Hear(kCancel));
  CheckServedBy(channel, peer);
}

TEST_CASE("replies that are announced and trickle in hold memory until the deadline, not longer") {
  TcpOptions tcp;
  tcp.receive_pool_bytes = 4 << 20;  // three such replies
  Field field(tcp);
  Channel channel = field.Dial();
  Peer peer = field.Accept();
  CheckServedBy(channel, peer);
  for (uint32_t i = 1; i <= 5; ++i) {
    const auto asked = std::make_shared<Asked>();
    Start(channel, asked, milliseconds(400));
    const uint64_t call = peer.Hear(kRequest).value().header.call;
    peer.Say(Begin(i, Head({.type = kReply, .call = call}), kClientBody) + Chunk(i, 0, "x"));
    REQUIRE(Ended(asked));
    CHECK(asked->reply.status().code() == absl::StatusCode::kDeadlineExceeded);
  }
  CheckServedBy(channel, peer);
  CHECK(peer.abandons() > 0);
  CHECK(field.healthy->Trouble() == "");
}

TEST_CASE("a server that sends PINGs and never reads is left") {
  TcpOptions tcp;
  tcp.send_buffer_bytes = 16 << 10;
  Field field(tcp);
  Channel channel = field.Dial();
  const auto asked = std::make_shared<Asked>();
  Start(channel, asked);
  Peer peer = field.Accept();
  REQUIRE(peer.Hear(kRequest));
  peer.TakeLittle();
  std::string pings;
  for (int i = 0; i < 1000; ++i) pings += Message(Bytes(Header{.call = 1}));
  REQUIRE(testing::Eventually([&] {
    peer.Say(pings);
    return asked->ended.load();
  }));
  CHECK_THAT(std::string(asked->reply.status().message()), Contains("does not read its answers"));
  CHECK(field.healthy->Trouble() == "");
}

TEST_CASE("a server that never reads: calls end at their deadline and give their memory back") {
  TcpOptions tcp;
  tcp.send_buffer_bytes = 16 << 10;
  Field field(tcp);
  Channel channel = field.Dial();
  const auto first = std::make_shared<Asked>();
  Start(channel, first);
  Peer peer = field.Accept();
  peer.TakeLittle();
  peer.Say(GoodReply(peer.Hear(kRequest).value().header.call));
  REQUIRE(Ended(first));
  testing::Probe::Client client(channel);
  constexpr int kCalls = 200;
  const auto late = std::make_shared<std::atomic<int>>(0);
  for (int i = 0; i < kCalls; ++i) {
    client.AsyncDo(testing::Asking(client, "", 0, 60'000), {.timeout = milliseconds(500)},
                   [late](const absl::StatusOr<Msg<testing::Answer>>& reply) {
                     *late += absl::IsDeadlineExceeded(reply.status()) ? 1 : 0;
                   });
  }
  CHECK(channel.pool()->stats().leased_bytes > kCalls * size_t{30'000});
  CHECK(testing::Eventually([&] { return *late == kCalls; }));
  CHECK(testing::Eventually([&] { return channel.pool()->stats().leased_bytes < (1 << 20); }));
  CHECK(field.healthy->Trouble() == "");
}

TEST_CASE("a server's last words cannot forge a line of the log") {
  Field field;
  Channel channel = field.Dial();
  const auto asked = std::make_shared<Asked>();
  Start(channel, asked);
  Peer peer = field.Accept();
  REQUIRE(peer.Hear(kRequest));
  peer.Say(Message(Head({.type = kGoAway, .status = 7},
                        {{.kind = kStatusMessage, .value = "no\r\nE forged: line"}})));
  REQUIRE(Ended(asked));
  CHECK(field.log.Saw("ended the connection: no\\x0d\\x0aE forged: line"));
}

TEST_CASE("a caller's memory and descriptors stay flat while every fault is played again") {
  Field field;
  std::vector<ClientCase> cases;
  for (auto& table : {BrokenWireCases(), BrokenFrameCases(), BadReplyCases()}) {
    cases.insert(cases.end(), table.begin(), table.end());
  }
  Rounds rounds;
  for (int round = 0; round < 13; ++round) {
    for (const ClientCase& played : cases) Play(field, played);
    field.log.Forget();
    if (round > 0) rounds.Add();
  }
  CHECK(rounds.Trouble(cases.size()) == "");
  CHECK(field.healthy->Trouble() == "");
}

}  // namespace
}  // namespace farcall::hostile
