#include <catch2/catch.hpp>

#include "farcall/tests/transports/rdma/engine_testing.h"

namespace farcall::testing {
namespace {

TEST_CASE("over a device that has little, the transport's promises are kept") {
  ShmOptions options;
  options.device.windows = false;
  options.device.read_sink_needs_remote_write = true;
  options.device.max_read_sges = 1;
  options.device.max_inline = 0;
  RunTransportConformance(ShmSubject(options));
}

}  // namespace
}  // namespace farcall::testing
