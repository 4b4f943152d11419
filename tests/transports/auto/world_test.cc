// Auto over real TCP and shared memory: paths are found, carry calls, break, and heal.

#include "farcall/tests/transports/auto/world.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/rpc/outcome.h"
#include "farcall/transports/faulty/faulty.h"
#include "farcall/transports/rdma/shm.h"
#include "farcall/transports/rdma/verbs_transport.h"
#include "farcall/transports/tcp/tcp.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;

absl::StatusOr<Msg<Answer>> Call(const Channel& channel, const std::string& action,
                                 size_t data_bytes = 0) {
  Probe::Client client(channel);
  return client.Do(Asking(client, action, 0, data_bytes),
                   {.timeout = seconds(10), .wait_for_ready = true});
}

std::string TransportOf(const Channel& channel) {
  const auto answer = Call(channel, "peer");
  INFO(answer.status());
  REQUIRE(answer.ok());
  return (*answer)->text()->str();
}

TEST_CASE("on one host calls go by shared memory, whatever their size") {
  AutoServer server;
  Channel channel = server.Dial();
  REQUIRE(GoesBy(channel, "shm"));
  const ChannelInfo info = channel.info();
  CHECK(info.connection.transport == "shm");
  CHECK(info.paths.changes == 1);
  CHECK(info.paths.better.empty());
  CHECK(info.endpoint == server.address.ToString());
  CHECK_THAT(info.endpoint, StartsWith("auto://127.0.0.1:"));
  CHECK(TransportOf(channel) == "shm|");
  for (const size_t bytes : {size_t{1}, size_t{10'000}, size_t{3} << 20}) {
    const auto answer = Call(channel, "", bytes);
    REQUIRE(answer.ok());
    CHECK((*answer)->data()->size() == bytes);
  }
  const std::string dump = Dump(channel.metrics());
  CHECK_THAT(dump, Contains("path  in_use=shm") && Contains("tcp://") && Contains("shm://"));
  CHECK(server.server->stats().connections_open == 2);
}

TEST_CASE("a plain TCP caller is served, and asks for nothing") {
  AutoServer server;
  Endpoint tcp = server.address;
  tcp.scheme = "tcp";
  Channel channel(MakeTcpTransport(), tcp, Brisk());
  CHECK(TransportOf(channel) == "tcp|");
  CHECK(channel.info().paths.in_use == "tcp");
  CHECK(channel.metrics().paths.in_use.empty());
}

TEST_CASE("a server that listens on TCP alone: calls go there, and the reason is told") {
  ProbeImpl probe;
  Server server;
  REQUIRE(server.Add(Probe::Bind(probe)).ok());
  Endpoint address =
      server.Listen(MakeTcpTransport(), ParseEndpoint("tcp://127.0.0.1:0").value()).value();
  address.scheme = "auto";
  Channel channel(MakeAutoTransport(TcpAndShm()), address, Brisk());
  CHECK(TransportOf(channel) == "tcp|");
  CHECK(channel.info().paths.in_use == "tcp");
  CHECK_THAT(WhyNot(channel, "shm"), Contains("the peer offers no other paths"));
}

TEST_CASE("a side that leaves a path out: the other is told") {
  AutoServer server({.tcp = MakeTcpTransport(), .shm = nullptr, .rdma = nullptr});
  Channel channel = server.Dial();
  CHECK(TransportOf(channel) == "tcp|");
  CHECK(
      Eventually([&] { return WhyNot(channel, "shm").find("offers none") != std::string::npos; }));
  CHECK_THAT(WhyNot(channel, "shm"), Contains("left out by its options"));
  CHECK_THAT(WhyNot(channel, "rdma"), Contains("left out by this side's options"));
  CHECK(channel.info().paths.changes == 0);
}

TEST_CASE("a caller on another host does not find the shared memory, and says so") {
  AutoServer server;
  ShmOptions elsewhere;
  elsewhere.device.runtime_folder = "/tmp/farcall-auto-elsewhere";
  Channel channel =
      server.Dial({.tcp = MakeTcpTransport(), .shm = MakeShmTransport(elsewhere), .rdma = nullptr});
  CHECK(TransportOf(channel) == "tcp|");
  CHECK(Eventually(
      [&] { return WhyNot(channel, "shm").find("attach failed") != std::string::npos; }));
  CHECK(TransportOf(channel) == "tcp|");
}

TEST_CASE("two servers with one port on two addresses offer shared memory each") {
  AutoServer one;
  CountingProbe probe;
  Server two;
  REQUIRE(two.Add(Probe::Bind(probe)).ok());
  Endpoint address = one.address;
  for (const char* host : {"127.0.0.2", "127.0.0.3"}) {
    address.host = host;
    REQUIRE(two.Listen(MakeAutoTransport(TcpAndShm()), address).ok());
    Channel channel(MakeAutoTransport(TcpAndShm()), address, Brisk());
    CHECK(GoesBy(channel, "shm"));
  }
  CHECK(GoesBy(one.Dial(), "shm"));
}

TEST_CASE("without an adapter RDMA is not offered, and both sides say why") {
  if (verbs::MakeVerbsDevice().ok()) return;  // this machine has one
  const AutoOptions both{.tcp = MakeTcpTransport(), .shm = nullptr, .rdma = MakeVerbsTransport()};
  AutoServer server(both);
  Channel channel = server.Dial(both);
  CHECK(TransportOf(channel) == "tcp|");
  CHECK(Eventually([&] { return WhyNot(channel, "rdma").find("RDMA") != std::string::npos; }));
  CHECK_THAT(WhyNot(channel, "rdma"), StartsWith("the peer offers none: "));
}

TEST_CASE("the path breaks under traffic again and again: no call is lost or run twice") {
  const uint64_t seed = 1;
  // Each connection over shared memory is cut soon after it was made, but not before a slow machine
  // has probed it.
  const FaultPlan plan{.cut_after = {1, milliseconds(100), milliseconds(400)}};
  const bool by_server = GENERATE(false, true);
  INFO("cut by the " << (by_server ? "server" : "caller") << ", seed " << seed);
  AutoOptions faulty = TcpAndShm();
  faulty.shm = MakeFaultyTransport(faulty.shm, plan, seed);
  AutoServer server(by_server ? faulty : TcpAndShm());
  Channel channel = server.Dial(by_server ? TcpAndShm() : faulty);
  Traffic traffic(channel, 16);
  CHECK(Eventually([&] { return channel.info().paths.changes >= 12; }, seconds(60)));
  REQUIRE(traffic.Stop());
  CHECK(traffic.Judge(server.probe) == "");
  CHECK(traffic.succeeded() > 100);
  // TCP was never lost.
  CHECK(channel.info().stats.connects == 1);
  CHECK(channel.info().stats.connect_failures == 0);
}

TEST_CASE("calls of idempotent methods do not notice that their path breaks") {
  AutoOptions faulty = TcpAndShm();
  faulty.shm = MakeFaultyTransport(
      faulty.shm, {.cut_after = {1, milliseconds(100), milliseconds(400)}}, /*seed=*/2);
  AutoServer server(faulty);
  Channel channel = server.Dial();
  std::atomic<bool> enough{false};
  std::array<absl::Status, 4> ended;
  std::vector<std::thread> callers;
  for (absl::Status& status : ended) {
    callers.emplace_back([&] {
      Probe::Client client(channel);
      while (!enough && status.ok()) {
        status = client.Object(AskT(), {.timeout = seconds(20), .wait_for_ready = true}).status();
      }
    });
  }
  CHECK(Eventually(
      [&] {
        const ChannelInfo info = channel.info();
        return info.paths.changes >= 8 && info.stats.repeated >= 4;
      },
      seconds(60)));
  enough = true;
  for (std::thread& caller : callers) caller.join();
  for (const absl::Status& status : ended) CHECK(status.ok());
  CHECK(channel.info().stats.failed == 0);
}

TEST_CASE("a path that stays: after a loss it heals") {
  const FaultPlan once{.cut_at_send = 40};
  AutoOptions faulty = TcpAndShm();
  faulty.shm = MakeFaultyTransport(faulty.shm, once, /*seed=*/7);
  AutoServer server;
  Channel channel = server.Dial(faulty);
  REQUIRE(GoesBy(channel, "shm"));
  Traffic traffic(channel, 4);
  CHECK(Eventually([&] { return channel.info().paths.changes >= 3; }, seconds(30)));
  REQUIRE(traffic.Stop());
  CHECK(traffic.Judge(server.probe) == "");
  REQUIRE(GoesBy(channel, "shm"));
}

TEST_CASE("the first connection is cut: what is beside it ends, and both come back") {
  AutoOptions faulty = TcpAndShm();
  faulty.tcp =
      MakeFaultyTransport(faulty.tcp, {.cut_after = {1, milliseconds(100), milliseconds(200)}}, 3);
  AutoServer server;
  Channel channel = server.Dial(faulty);
  Traffic traffic(channel, 8);
  CHECK(Eventually(
      [&] {
        const ChannelMetrics metrics = channel.metrics();
        int taken_along = 0;
        for (const ConnectionStats& closed : metrics.closed) {
          if (closed.transport == "shm" && closed.calls_started > 0) ++taken_along;
        }
        return metrics.totals.connects >= 5 && taken_along >= 3;
      },
      seconds(60)));
  REQUIRE(traffic.Stop());
  CHECK(traffic.Judge(server.probe) == "");
  CHECK(Eventually([&] { return server.server->stats().connections_open <= 2; }));
}

TEST_CASE("a server that shuts down: calls by the path end, and nothing is cut short") {
  AutoServer server(TcpAndShm(), {.loops = 2});
  Channel channel = server.Dial();
  REQUIRE(GoesBy(channel, "shm"));
  Probe::Client client(channel);
  std::atomic<int> ended{0}, succeeded{0};
  for (int i = 0; i < 8; ++i) {
    client.AsyncWait(Asking(client, "", 2500), {.timeout = seconds(20)},
                     [&](const absl::StatusOr<Msg<Answer>>& reply) {
                       ++ended;
                       if (reply.ok()) ++succeeded;
                     });
  }
  REQUIRE(Eventually([&] { return server.probe.ran == 8; }));
  CHECK(server.server->Shutdown(seconds(15)).ok());
  CHECK(Eventually([&] { return ended == 8; }));
  CHECK(succeeded == 8);
}

TEST_CASE("sessions on different loops of a server: the end of one takes the other along") {
  AutoServer server(TcpAndShm(), {.loops = 3});
  for (int i = 0; i < 20; ++i) {
    Channel channel = server.Dial();
    REQUIRE(GoesBy(channel, "shm"));
    CHECK(TransportOf(channel) == "shm|");
  }
  CHECK(Eventually([&] { return server.server->stats().connections_open == 0; }));
}

TEST_CASE("a channel that ends at any moment of an attempt leaves nothing") {
  AutoServer server;
  for (int i = 0; i < 200; ++i) {
    Channel channel = server.Dial();
    std::this_thread::sleep_for(std::chrono::microseconds(i * 50));
  }
  CHECK(Eventually([&] { return server.server->stats().connections_open == 0; }));
}

TEST_CASE("a server with room for one connection: TCP carries on, and the reason is told") {
  AutoServer server(TcpAndShm(), {.max_connections = 1});
  Channel channel = server.Dial();
  CHECK(TransportOf(channel) == "tcp|");
  // In the server's own words, each time that it is tried.
  CHECK(Eventually(
      [&] { return WhyNot(channel, "shm").find("max_connections") != std::string::npos; }));
  for (int i = 0; i < 300; ++i) {
    const std::string why = WhyNot(channel, "shm");
    if (why.find("cooling down") != std::string::npos) CHECK_THAT(why, Contains("max_connections"));
    std::this_thread::sleep_for(milliseconds(2));
  }
  CHECK(TransportOf(channel) == "tcp|");
}

}  // namespace
}  // namespace farcall::testing
