// What the guest (tests/guest/) says of its adapter, for tests of real verbs.

#ifndef FARCALL_TESTS_TRANSPORTS_RDMA_VERBS_TESTING_H_
#define FARCALL_TESTS_TRANSPORTS_RDMA_VERBS_TESTING_H_

#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "farcall/transports/rdma/verbs/verbs.h"

namespace farcall::verbs::testing {

inline std::string FromGuest(const char* variable) {
  const char* const value = std::getenv(variable);
  INFO("this test needs an RDMA adapter: sh tests/guest/run.sh -- <its name>");
  REQUIRE(value != nullptr);
  return value;
}

// Where listeners listen, each on a port of its own.
inline std::string Host() { return FromGuest("FARCALL_GUEST_ADDRESS"); }

inline std::shared_ptr<rdma::Device> Make(VerbsOptions options = {}) {
  absl::StatusOr<std::shared_ptr<rdma::Device>> device = MakeVerbsDevice(std::move(options));
  INFO(device.status().ToString());
  REQUIRE(device.ok());
  return *device;
}

}  // namespace farcall::verbs::testing

#endif  // FARCALL_TESTS_TRANSPORTS_RDMA_VERBS_TESTING_H_
