#include "farcall/transports/loopback/loopback.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>

#include "farcall/tests/transports/conformance.h"

namespace farcall::testing {
namespace {

Endpoint NewName() {
  static std::atomic<int> names = 0;
  return ParseEndpoint("loopback://test-" + std::to_string(++names)).value();
}

TEST_CASE("loopback keeps the transport's promises") {
  const auto network = MakeLoopbackNetwork();
  RunTransportConformance(
      {.name = "loopback",
       .make =
           [&](TransportLimits limits) {
             return MakeLoopbackTransport({.network = network, .limits = limits});
           },
       .listen_endpoint = NewName,
       .silent_endpoint =
           [](Transport& transport, EventLoop& nobody_drives) {
             std::shared_ptr<Listener> listener =
                 transport.Listen(NewName(), {&nobody_drives}, [](auto&&...) {}).value();
             return std::pair<Endpoint, std::shared_ptr<void>>(listener->address(), listener);
           }});
}

}  // namespace
}  // namespace farcall::testing
