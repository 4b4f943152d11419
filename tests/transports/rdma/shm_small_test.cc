#include <catch2/catch.hpp>

#include "farcall/tests/transports/rdma/engine_testing.h"

namespace farcall::testing {
namespace {

TEST_CASE("with the smallest depths the transport's promises are kept") {
  ShmOptions options;
  options.rdma.receive_depth = 4;
  options.rdma.eager_bytes = 64;
  options.rdma.read_depth = 1;
  RunTransportConformance(ShmSubject(options));
}

}  // namespace
}  // namespace farcall::testing
