#include "farcall/transports/dial.h"

#include <catch2/catch.hpp>
#include <string>

namespace farcall {
namespace {

absl::StatusOr<std::shared_ptr<Transport>> For(const std::string& address) {
  return TransportFor(ParseEndpoint(address).value());
}

TEST_CASE("every scheme has its transport, one a process") {
  const auto tcp = For("tcp://host:1").value();
  CHECK(tcp != nullptr);
  CHECK(For("tcp://other:2").value() == tcp);
  CHECK(For("unix:///run/x").value() == tcp);
  CHECK(For("auto://host:1").value() == tcp);
  const auto loopback = For("loopback://x").value();
  CHECK(loopback != nullptr);
  CHECK(loopback != tcp);
  CHECK(EndpointForTransport(ParseEndpoint("auto://h:1").value()).ToString() == "tcp://h:1");
  CHECK(EndpointForTransport(ParseEndpoint("unix:///x").value()).ToString() == "unix:///x");
}

TEST_CASE("what is not served is said") {
  CHECK(For("rdma://host:1").status().ToString() ==
        "UNIMPLEMENTED: rdma://host:1: this build has no rdma transport; it serves tcp://host:port, "
        "unix:///path, loopback://name, auto://host:port");
  CHECK(For("shm://x").status().code() == absl::StatusCode::kUnimplemented);
  CHECK(For("carrier-pigeon://x").status().ToString() ==
        "INVALID_ARGUMENT: carrier-pigeon://x: no transport serves the scheme \"carrier-pigeon\"; "
        "known are tcp://host:port, unix:///path, loopback://name, auto://host:port");
}

}  // namespace
}  // namespace farcall
