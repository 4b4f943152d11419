// A channel that nobody uses for longer than any keepalive stays alive, in real time over TCP.

#include <catch2/catch.hpp>
#include <thread>

#include "farcall/services/echo/echo_impl.h"
#include "farcall/transports/dial.h"

namespace farcall::testing {
namespace {

TEST_CASE("idle for 60 seconds, then a call on the same connection") {
  services::EchoImpl echo;
  Server server;
  REQUIRE(server.Add(services::Echo::Bind(echo)).ok());
  auto address = Listen(server, "tcp://127.0.0.1:0");
  REQUIRE(address.ok());
  auto channel = Dial(address->ToString());
  REQUIRE(channel.ok());
  services::Echo::Client client(*channel);
  services::SayRequestT request;
  request.text = "before";
  REQUIRE(client.Say(request).ok());
  const uint64_t sent = channel->info().connection.counters.messages_sent;

  std::this_thread::sleep_for(std::chrono::seconds(61));

  request.text = "after";
  REQUIRE(client.Say(request).ok());
  const ChannelInfo info = channel->info();
  CHECK(info.stats.connects == 1);
  CHECK(info.connection.counters.messages_sent > sent + 1);  // it said PING meanwhile
}

}  // namespace
}  // namespace farcall::testing
