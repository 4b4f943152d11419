// Conversations that stop at every byte there is: by a close, a reset, or silence. Both sides.

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "farcall/rpc/channel.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/hostile/peer.h"
#include "farcall/tests/hostile/server_cases.h"

namespace farcall::hostile {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tcp::testing::RawSocket;

// Silence is over soon, but not so soon that a busy machine makes the healthy caller look silent.
constexpr KeepaliveOptions kImpatient = {.handshake_timeout = milliseconds(1000),
                                         .ping_after = milliseconds(1000),
                                         .ping_timeout = milliseconds(1000)};

// HELLO, a call with metadata, and one whose body comes in chunks (the second cut short: one byte
// of 70,000 more or less tells nothing new).
std::string CallerSays() {
  return Greeting() + Message(Head(Ask(1), {{.key = "key", .value = "value"}}), AskBody("x")) +
         Begin(1, Head(Ask(2)), 70'000) + Chunk(1, 0, "0123456789");
}

std::string ServerSays(uint64_t call) {
  return Greeting() + Message(Head({.type = kReply, .call = call}, {{.key = "k", .value = "v"}}),
                              AnswerBody("x"));
}

TEST_CASE("a caller that is cut off after any byte leaves nothing behind") {
  Ground ground(CaseOptions());
  const std::string says = CallerSays();
  const bool by_reset = GENERATE(false, true);
  for (size_t bytes = 0; bytes <= says.size(); ++bytes) {
    Peer peer = Peer::Connect(ground.endpoint);
    peer.Say(std::string_view(says).substr(0, bytes));
    if (by_reset) {
      peer.Reset();
    } else {
      peer.Finish();
      peer.HearTheEnd();
    }
  }
  {
    Peer last = Peer::Connect(ground.endpoint);  // accepted after all the others
    REQUIRE(last.Hear(kHello));
  }
  CHECK(ground.Quiet());
  if (!by_reset) CHECK(ground.server.stats().connections_accepted == says.size() + 3);
  CHECK(ground.healthy->Trouble() == "");
}

TEST_CASE("a caller that falls silent after any byte is given up in time") {
  ServerOptions options = CaseOptions();
  options.keepalive = kImpatient;
  Ground ground(options);
  const std::string says = CallerSays();
  std::vector<Peer> peers;
  for (size_t bytes = 0; bytes <= says.size(); ++bytes) {
    peers.push_back(Peer::Connect(ground.endpoint));
    peers.back().Say(std::string_view(says).substr(0, bytes));
  }
  for (Peer& peer : peers) peer.HearTheEnd();
  CHECK(ground.Quiet());
  CHECK(ground.healthy->Trouble() == "");
}

// A server by hand that serves one connection of each channel, and what became of their calls.
struct CutServer {
  // The connection of channel `i` hears HELLO and the first call if it gets that far, says `bytes`
  // of what a server says, and is left to the caller of Serve.
  std::vector<Peer> Serve(size_t channels, const std::string& says) {
    std::vector<Peer> peers;
    for (size_t bytes = 0; bytes < channels; ++bytes) {
      peers.emplace_back(listener.Accept());
      peers.back().Say(std::string_view(says).substr(0, bytes));
    }
    return peers;
  }

  RawSocket listener = RawSocket::Listen(*ParseEndpoint("tcp://127.0.0.1:0"), 1024);
};

struct Waiting {
  absl::StatusOr<Msg<testing::Answer>> reply = absl::UnknownError("under way");
  CallInfo info;
  std::atomic<bool> ended{false};
};

// One call on each of as many channels as there are bytes to cut at; their loop is the healthy
// caller's, too.
struct CutClients {
  CutClients(const Endpoint& server, size_t count, Duration timeout, KeepaliveOptions keepalive) {
    for (size_t i = 0; i < count; ++i) {
      channels.emplace_back(transport, server,
                            ChannelOptions{.loop = loop,
                                           .backoff = {.first = seconds(60), .max = seconds(60)},
                                           .keepalive = keepalive});
      waiting.push_back(std::make_unique<Waiting>());
      testing::Probe::Client client(channels.back());
      client.AsyncDo(testing::Asking(client, "x"), {.timeout = timeout, .info = &waiting[i]->info},
                     [to = waiting.back().get()](absl::StatusOr<Msg<testing::Answer>> reply) {
                       to->reply = std::move(reply);
                       to->ended = true;
                     });
    }
  }

  bool AllEnded() const {
    return testing::Eventually([&] {
      return std::all_of(waiting.begin(), waiting.end(), [](auto& call) { return +call->ended; });
    });
  }

  std::shared_ptr<EventLoop> loop = std::make_shared<EventLoop>(
      EventLoopOptions{.mode = ProgressMode::kEvent, .dedicated = true});
  std::shared_ptr<Transport> transport = MakeTcpTransport();
  std::vector<Channel> channels;
  std::vector<std::unique_ptr<Waiting>> waiting;
};

// The first id that a channel uses on a connection: told by the first call on a whole conversation.
uint64_t FirstCallId() {
  CutServer server;
  CutClients clients(server.listener.address(), 1, seconds(5), {});
  Peer peer(server.listener.Accept());
  peer.Say(Greeting());
  const uint64_t id = peer.Hear(kRequest).value().header.call;
  peer.Say(ServerSays(id).substr(Greeting().size()));
  REQUIRE(clients.AllEnded());
  REQUIRE(clients.waiting[0]->reply.ok());
  return id;
}

void CheckCutCalls(const CutClients& clients, const std::string& says) {
  REQUIRE(clients.AllEnded());
  for (size_t bytes = 0; bytes <= says.size(); ++bytes) {
    CAPTURE(bytes, says.size());
    const Waiting& call = *clients.waiting[bytes];
    if (bytes == says.size()) {
      CHECK(call.reply.ok());
      continue;
    }
    const absl::StatusCode code = call.reply.status().code();
    CHECK((code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded));
    const bool sent = bytes >= Greeting().size();
    CHECK(call.info.outcome == (sent ? Outcome::kUnknown : Outcome::kNotSent));
  }
}

TEST_CASE("a server that is cut off after any byte: the call ends and says so") {
  LogLines log;
  const std::string says = ServerSays(FirstCallId());
  CutServer server;
  CutClients clients(server.listener.address(), says.size() + 1, seconds(10), {});
  std::vector<Peer> peers = server.Serve(says.size() + 1, says.substr(0, Greeting().size()));
  for (size_t bytes = 0; bytes <= says.size(); ++bytes) {
    if (bytes >= Greeting().size()) {
      REQUIRE(peers[bytes].Hear(kRequest));  // a reply before its request would be another fault
      peers[bytes].Say(says.substr(Greeting().size(), bytes - Greeting().size()));
    }
    peers[bytes].Finish();
  }
  CheckCutCalls(clients, says);
}

TEST_CASE("a server that falls silent after any byte: the call ends and says so") {
  LogLines log;
  const std::string says = ServerSays(FirstCallId());
  CutServer server;
  CutClients clients(server.listener.address(), says.size() + 1, seconds(3), {});
  std::vector<Peer> peers = server.Serve(says.size() + 1, says.substr(0, Greeting().size()));
  for (size_t bytes = Greeting().size(); bytes <= says.size(); ++bytes) {
    REQUIRE(peers[bytes].Hear(kRequest));
    peers[bytes].Say(says.substr(Greeting().size(), bytes - Greeting().size()));
  }
  CheckCutCalls(clients, says);
}

}  // namespace
}  // namespace farcall::hostile
