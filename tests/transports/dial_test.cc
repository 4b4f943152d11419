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
  const auto shm = For("shm://x").value();
  CHECK(shm != nullptr);
  CHECK(For("shm://y").value() == shm);
}

TEST_CASE("what is not served is said, with what is") {
  for (const std::string address : {"rdma://host:1", "carrier-pigeon://x"}) {
    const absl::Status status = For(address).status();
    CHECK(status.code() == (address[0] == 'c' ? absl::StatusCode::kInvalidArgument
                                              : absl::StatusCode::kUnimplemented));
    CHECK_THAT(std::string(status.message()),
               Catch::Matchers::StartsWith(address) && Catch::Matchers::Contains("tcp://") &&
                   Catch::Matchers::Contains("shm://") && Catch::Matchers::Contains("loopback://"));
  }
}

}  // namespace
}  // namespace farcall
