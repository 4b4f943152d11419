// Auto over an RDMA adapter, in the guest (tests/guest/): calls go by it, it breaks and heals, and
// TCP carries on without it.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <utility>

#include "farcall/tests/transports/auto/world.h"
#include "farcall/tests/transports/rdma/verbs_testing.h"
#include "farcall/transports/faulty/faulty.h"
#include "farcall/transports/rdma/verbs_transport.h"
#include "farcall/transports/tcp/tcp.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

AutoOptions TcpAndRdma() {
  return {.tcp = MakeTcpTransport(), .shm = nullptr, .rdma = MakeVerbsTransport()};
}

// An emulated machine is slow.
ChannelOptions Patient() {
  ChannelOptions options = Brisk();
  options.paths.attach_timeout = seconds(10);
  options.paths.probe_timeout = seconds(10);
  return options;
}

TEST_CASE("calls go by RDMA, which breaks under traffic and heals: none is lost or run twice") {
  const std::string host = verbs::testing::Host();
  // Everywhere: the address that is offered is that of the interface that callers come in by.
  AutoServer server(TcpAndRdma(), {}, "0.0.0.0");
  server.address.host = host;
  AutoOptions faulty = TcpAndRdma();
  faulty.rdma = MakeFaultyTransport(
      faulty.rdma, {.cut_after = {1, milliseconds(500), milliseconds(1500)}}, /*seed=*/5);
  Channel channel = server.Dial(faulty, Patient());
  REQUIRE(GoesBy(channel, "rdma", seconds(30)));
  CHECK_THAT(channel.info().connection.peer_address, Contains("rdma://" + host));
  Traffic traffic(channel, 8);
  CHECK(Eventually([&] { return channel.info().paths.changes >= 5; }, seconds(60)));
  REQUIRE(traffic.Stop());
  CHECK(traffic.Judge(server.probe) == "");
  CHECK(traffic.succeeded() > 20);
  CHECK(channel.info().stats.connects == 1);
}

// The last one: the adapter is gone afterwards.
TEST_CASE("the adapter is removed under traffic: calls go by TCP, and the reason is told") {
  const std::string host = verbs::testing::Host();
  AutoServer server(TcpAndRdma(), {}, host);
  Channel channel = server.Dial(TcpAndRdma(), Patient());
  REQUIRE(GoesBy(channel, "rdma", seconds(30)));
  Traffic traffic(channel, 8);
  REQUIRE(Eventually([&] { return traffic.succeeded() > 20; }, seconds(30)));
  // It returns when this process has closed the adapter, at its end.
  const std::string removal =
      "rdma link delete " + verbs::testing::FromGuest("FARCALL_GUEST_DEVICE") + " &";
  REQUIRE(std::system(removal.c_str()) == 0);
  REQUIRE(GoesBy(channel, "tcp", seconds(30)));
  const uint64_t before = traffic.succeeded();
  CHECK(Eventually([&] { return traffic.succeeded() > before + 20; }, seconds(30)));
  REQUIRE(traffic.Stop());
  CHECK(traffic.Judge(server.probe) == "");
  CHECK(channel.info().paths.in_use == "tcp");
  CHECK_THAT(WhyNot(channel, "rdma"), Contains("adapter") || Contains("RDMA"));
}

}  // namespace
}  // namespace farcall::testing
