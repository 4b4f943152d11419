#include "farcall/tests/transports/conformance.h"

#include <catch2/catch.hpp>
#include <memory>

#include "farcall/transports/auto/auto.h"
#include "farcall/transports/rdma/shm.h"
#include "farcall/transports/tcp/tcp.h"

namespace farcall::testing {
namespace {

TEST_CASE("auto keeps the transport's promises, as TCP") {
  RunTransportConformance(
      {.name = "tcp",
       .make =
           [](TransportLimits limits) {
             TcpOptions tcp;
             tcp.limits = limits;
             return MakeAutoTransport(
                 {.tcp = MakeTcpTransport(tcp), .shm = MakeShmTransport(), .rdma = nullptr});
           },
       .listen_endpoint = [] { return ParseEndpoint("tcp://127.0.0.1:0").value(); }});
}

}  // namespace
}  // namespace farcall::testing
