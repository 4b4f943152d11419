#include "farcall/transports/dial.h"

#include <catch2/catch.hpp>
#include <string>

namespace farcall {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

absl::StatusOr<std::shared_ptr<Transport>> For(const std::string& address) {
  return TransportFor(ParseEndpoint(address).value());
}

TEST_CASE("every scheme has its transport, one a process") {
  const auto tcp = For("tcp://host:1").value();
  CHECK(tcp != nullptr);
  CHECK(For("tcp://other:2").value() == tcp);
  CHECK(For("unix:///run/x").value() == tcp);
  const auto best = For("auto://host:1").value();
  CHECK(best != nullptr);
  CHECK(best != tcp);
  CHECK(For("auto://other:2").value() == best);
  const auto loopback = For("loopback://x").value();
  CHECK(loopback != nullptr);
  CHECK(loopback != tcp);
  const auto shm = For("shm://x").value();
  CHECK(shm != nullptr);
  CHECK(For("shm://y").value() == shm);
  const auto rdma = For("rdma://host:1").value();
  CHECK(rdma != nullptr);
  CHECK(For("rdma://other:2").value() == rdma);
}

TEST_CASE("what is not served is said, with what is") {
  const std::string address = "carrier-pigeon://x";
  const absl::Status status = For(address).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), StartsWith(address) && Contains("tcp://") &&
                                                Contains("rdma://") && Contains("shm://") &&
                                                Contains("loopback://"));
}

// What is wrong with the address is said first, then what this machine lacks.
TEST_CASE("rdma:// fails at once where it cannot work, and says why") {
  CHECK(Dial("rdma://127.0.0.1:0").status().code() == absl::StatusCode::kInvalidArgument);
  TransportOptions options;
  options.rdma.device.ack_timeout = 32;
  CHECK_THAT(std::string(Dial("rdma://127.0.0.1:1", {}, options).status().message()),
             Contains("ack_timeout"));
  if (verbs::MakeVerbsDevice().ok()) return;  // this machine has an adapter
  Server server;
  for (const absl::Status& status :
       {Dial("rdma://127.0.0.1:7000").status(), Listen(server, "rdma://127.0.0.1:7000").status()}) {
    INFO(status.ToString());
    CHECK((status.code() == absl::StatusCode::kUnavailable ||
           status.code() == absl::StatusCode::kPermissionDenied));
    CHECK_THAT(std::string(status.message()),
               StartsWith("rdma://127.0.0.1:7000: ") && Contains("RDMA"));
  }
}

}  // namespace
}  // namespace farcall
