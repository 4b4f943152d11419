// Connections that come and go, in every way that they can, and what the process has afterwards.

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <optional>
#include <vector>

#include "farcall/rpc/clock.h"
#include "farcall/tests/faults/process.h"
#include "farcall/tests/faults/scene.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/hostile/peer.h"
#include "farcall/tests/rpc/sanitized.h"
#include "farcall/transports/dial.h"

namespace farcall::faults {
namespace {

using std::chrono::seconds;
using testing::Eventually;
using testing::kSanitized;

constexpr int kAtOnce = 50;

// Both sides of every connection are in this process.
struct Sides {
  explicit Sides(const std::string& scheme)
      : listener(tcp::testing::RawSocket::Listen(
            *ParseEndpoint(scheme == "unix" ? "unix://" + folder / "raw" : "tcp://127.0.0.1:0"),
            2 * kAtOnce)) {
    REQUIRE(server.Add(testing::Probe::Bind(probe)).ok());
    const auto at = server.Listen(transport, *ParseEndpoint(folder.AddressFor(scheme)));
    REQUIRE(at.ok());
    endpoint = *at;
  }

  // The server has no connection and runs no call.
  bool Quiet() const {
    return Eventually(
        [&] {
          const ServerStats stats = server.stats();
          return stats.connections_open == 0 && stats.calls_running == 0;
        },
        seconds(60));
  }

  Folder folder;
  testing::ProbeImpl probe;
  Server server;
  std::shared_ptr<Transport> transport = MakeTcpTransport();
  std::shared_ptr<EventLoop> loop = std::make_shared<EventLoop>();  // of the channels
  Endpoint endpoint;
  tcp::testing::RawSocket listener;  // a server that is nothing but a socket
};

// A channel that has made a call and, if `in_flight`, has another under way.
struct Caller {
  Caller(Sides& sides, const Endpoint& to, bool own_loop)
      : channel(sides.transport, to,
                {.loop = own_loop ? nullptr : sides.loop, .mode = ProgressMode::kEvent}) {}

  void Start(std::atomic<int>& ended) {
    testing::AskT ask;
    ask.number = 60'000;  // ms
    testing::Probe::Client(channel).AsyncWait(
        ask, {.timeout = seconds(60)},
        [&ended](const absl::StatusOr<Msg<testing::Answer>>& reply) { ended += !reply.ok(); });
  }

  Channel channel;
};

// Of real channels, which close their connections in good order.
void CloseChannels(Sides& sides, bool in_flight) {
  std::atomic<int> ended{0};
  {
    const int ran = sides.probe.ran;
    std::vector<Caller> callers;
    for (int i = 0; i < kAtOnce; ++i) {
      // Some have a loop, and so a thread, of their own.
      callers.emplace_back(sides, sides.endpoint, i % 10 == 0);
      if (in_flight) callers.back().Start(ended);
    }
    if (in_flight) {
      REQUIRE(Eventually([&] { return sides.probe.ran >= ran + kAtOnce; }, seconds(30)));
    } else {
      for (Caller& caller : callers) {
        testing::Probe::Client client(caller.channel);
        REQUIRE(client.Object(testing::AskT(), {.timeout = seconds(30)}).ok());
      }
    }
  }
  if (in_flight) REQUIRE(Eventually([&] { return ended == kAtOnce; }, seconds(30)));
  REQUIRE(sides.Quiet());
}

// Raw callers reset their connections to a real server.
void ResetServer(Sides& sides, bool in_flight) {
  const int ran = sides.probe.ran;
  std::vector<hostile::Peer> peers;
  for (int i = 0; i < kAtOnce; ++i) {
    peers.push_back(hostile::Peer::Connect(sides.endpoint));
    std::string words = hostile::Greeting();
    if (in_flight) {
      words += hostile::Message(hostile::Head({.type = hostile::kRequest,
                                               .call = 1,
                                               .method = testing::Probe::WaitMethod::info().id,
                                               .timeout = hostile::kMinuteNs}),
                                hostile::AskBody("", 60'000));
    }
    REQUIRE(peers.back().Say(words));
  }
  for (hostile::Peer& peer : peers) REQUIRE(peer.Hear(hostile::kHello));
  if (in_flight) {
    REQUIRE(Eventually([&] { return sides.probe.ran >= ran + kAtOnce; }, seconds(30)));
  }
  for (hostile::Peer& peer : peers) peer.Reset();
  REQUIRE(sides.Quiet());
}

// A raw server resets its connections to real channels, which go then.
void ResetChannels(Sides& sides, bool in_flight) {
  std::atomic<int> ended{0};
  {
    std::vector<Caller> callers;
    std::vector<hostile::Peer> servers;
    for (int i = 0; i < kAtOnce; ++i) {
      callers.emplace_back(sides, sides.listener.address(), false);
      if (in_flight) callers.back().Start(ended);
      // Before it, perhaps, come connections that earlier channels began anew, and left.
      std::optional<hostile::Heard> heard;
      while (!heard) {
        hostile::Peer server(sides.listener.Accept());
        server.Say(hostile::Greeting());
        heard = server.Hear(in_flight ? hostile::kRequest : hostile::kHello);
        if (heard) servers.push_back(std::move(server));
      }
    }
    for (hostile::Peer& server : servers) server.Reset();
    if (in_flight) REQUIRE(Eventually([&] { return ended == kAtOnce; }, seconds(30)));
  }
}

void Round(Sides& sides) {
  for (const bool in_flight : {false, true}) {
    CloseChannels(sides, in_flight);
    ResetServer(sides, in_flight);
    ResetChannels(sides, in_flight);
  }
}

TEST_CASE("10,000 connects and disconnects leave descriptors, threads and memory as they were") {
  const hostile::LogLines log;
  const std::string scheme = GENERATE("tcp", "unix");
  Sides sides(scheme);
  constexpr int kConnectsARound = 6 * kAtOnce;
  const int rounds = (kSanitized ? 1'200 : 10'000) / kConnectsARound + 1;
  for (int i = 0; i < 2; ++i) Round(sides);  // what is made once is made now

  hostile::LogLines().Forget();
  const auto settled = [&] {  // closed sockets linger for up to a second
    const auto now = [] { return Clock::Steady().Now(); };
    return Eventually(
        [&, at = Descriptors(::getpid()).size(), since = now()]() mutable {
          const size_t open = Descriptors(::getpid()).size();
          if (open != at) since = now();
          at = open;
          return now() - since > std::chrono::milliseconds(1500);
        },
        seconds(60));
  };
  REQUIRE(settled());
  const std::set<int> descriptors = Descriptors(::getpid());
  const size_t threads = Threads(::getpid());
  const hostile::Usage before = hostile::Usage::Now();
  for (int i = 0; i < rounds; ++i) Round(sides);

  CHECK(Eventually([&] { return Descriptors(::getpid()) == descriptors; }, seconds(30)));
  CHECK(Eventually([&] { return Threads(::getpid()) == threads; }, seconds(30)));
  // Less than a pointer for each connection, beside what of the last ones is kept to be looked at.
  const size_t slack =
      (size_t{64} << 10) + static_cast<size_t>(rounds) * kConnectsARound * sizeof(void*);
  CHECK(Eventually([&] { return hostile::Usage::Now().heap_bytes <= before.heap_bytes + slack; },
                   seconds(30)));
  const hostile::Usage after = hostile::Usage::Now();
  INFO(before.heap_bytes << " bytes of heap before, " << after.heap_bytes << " after; "
                         << before.resident_bytes << " resident before, " << after.resident_bytes
                         << " after");
  CHECK(after.heap_bytes <= before.heap_bytes + slack);
  CHECK(after.resident_bytes <= before.resident_bytes + (size_t{4} << 20));
}

}  // namespace
}  // namespace farcall::faults
