#include <catch2/catch.hpp>
#include <memory>
#include <utility>

#include "farcall/tests/transports/rdma/engine_testing.h"

namespace farcall::testing {
namespace {

// A server whose loop nobody drives: its requests are never answered.
std::pair<Endpoint, std::shared_ptr<void>> Deaf(Transport& transport, EventLoop& loop) {
  std::shared_ptr<Listener> listener =
      transport.Listen(NewShmName(), {&loop}, [](auto&&...) {}).value();
  return {listener->address(), listener};
}

TEST_CASE("shm keeps the transport's promises") {
  TransportUnderTest subject = ShmSubject({});
  subject.silent_endpoint = Deaf;
  RunTransportConformance(subject);
}

}  // namespace
}  // namespace farcall::testing
