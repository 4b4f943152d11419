#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>

#include "farcall/tests/transports/conformance.h"
#include "farcall/transports/rdma/shm.h"

namespace farcall::testing {
namespace {

Endpoint NewName() {
  static std::atomic<int> names = 0;
  return ParseEndpoint("shm://test-" + std::to_string(::getpid()) + "-" + std::to_string(++names))
      .value();
}

// A server whose loop nobody drives: its requests are never answered.
std::pair<Endpoint, std::shared_ptr<void>> Deaf(Transport& transport, EventLoop& loop) {
  std::shared_ptr<Listener> listener =
      transport.Listen(NewName(), {&loop}, [](auto&&...) {}).value();
  return {listener->address(), listener};
}

TransportUnderTest Subject(ShmOptions options) {
  return {"shm",
          [options](TransportLimits limits) {
            ShmOptions with_limits = options;
            with_limits.rdma.limits = limits;
            return MakeShmTransport(with_limits);
          },
          NewName, Deaf};
}

TEST_CASE("shm keeps the transport's promises") { RunTransportConformance(Subject({})); }

TEST_CASE("shm without memory windows keeps the transport's promises") {
  ShmOptions options;
  options.device.windows = false;
  options.device.read_sink_needs_remote_write = true;
  options.device.max_read_sges = 1;
  options.device.max_inline = 0;
  RunTransportConformance(Subject(options));
}

TEST_CASE("shm of the smallest depths keeps the transport's promises") {
  ShmOptions options;
  options.rdma.receive_depth = 4;
  options.rdma.eager_bytes = 64;
  options.rdma.read_depth = 1;
  RunTransportConformance(Subject(options));
}

}  // namespace
}  // namespace farcall::testing
