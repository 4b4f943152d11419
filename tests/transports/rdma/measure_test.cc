// The threshold between eager and rendezvous, measured.

#include "farcall/transports/rdma/measure.h"

#include <unistd.h>

#include <bit>
#include <catch2/catch.hpp>

#include "farcall/tests/rpc/sanitized.h"
#include "farcall/tests/transports/rdma/engine_testing.h"

namespace farcall::testing {
namespace {

using softnic::Fault;

// Large enough that a READ wins somewhere below.
ShmOptions Wide() {
  ShmOptions options;
  options.rdma.eager_bytes = 64 << 10;
  options.rdma.receive_depth = 8;
  options.device.arena_bytes = uint32_t{2} << 20;
  return options;
}

// More than a copy of the largest size, which a sanitizer makes a slow one.
ShmOptions CostlyReads(ShmOptions options) {
  options.device.faults.faults = {{.kind = Fault::Kind::kDelay,
                                   .on = rdma::Opcode::kRead,
                                   .one_in = 1,
                                   .polls = kSanitized ? 1500 : 150}};
  return options;
}

// On a machine that has other things to do it takes longer.
absl::StatusOr<uint32_t> Measured(const ShmOptions& options) {
  return MeasureShmThreshold(options, kPatience);
}

TEST_CASE("what is measured is a legal threshold") {
  ShmOptions options;
  options.rdma.eager_bytes = GENERATE(uint32_t{0}, 64, 192, 1024, 8192);
  options.device.windows = GENERATE(true, false);
  const absl::StatusOr<uint32_t> measured = Measured(options);
  INFO(measured.status());
  REQUIRE(measured.ok());
  CHECK(*measured <= options.rdma.eager_bytes);
  CHECK(
      (std::has_single_bit(*measured) || *measured == 0 || *measured == options.rdma.eager_bytes));
  options.rdma.threshold = *measured;
  EventLoop loop({.helper_thread = false});
  CHECK(MakeShmTransport(options)->Listen(NewShmName(), {&loop}, [](auto&&...) {}).ok());
}

TEST_CASE("a device whose READs cost more has a higher threshold") {
  const uint32_t plain = Measured(Wide()).value();
  const uint32_t costly = Measured(CostlyReads(Wide())).value();
  INFO("plain " << plain << ", costly " << costly);
  CHECK(costly >= plain);
  CHECK(costly == Wide().rdma.eager_bytes);
  if (!kSanitized) CHECK(costly > plain);  // a sanitizer's copies cost what they like
}

// The device takes messages of half its arena.
TEST_CASE("sizes that the device cannot send are not measured") {
  ShmOptions options = CostlyReads(Wide());
  options.device.arena_bytes = uint32_t{64} << 10;
  const absl::StatusOr<uint32_t> measured = Measured(options);
  REQUIRE(measured.ok());
  CHECK(*measured <= 32 << 10);
}

TEST_CASE("what cannot be measured is said") {
  ShmOptions options;
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  SECTION("options") { options.rdma.eager_bytes = 65; }
  SECTION("no device") { options.device.max_read_sges = 0; }
  SECTION("too slow") {
    options.device.faults.faults = {{.kind = Fault::Kind::kDelay,
                                     .on = rdma::Opcode::kSend,
                                     .one_in = 1,
                                     .polls = 1'000'000'000}};
    code = absl::StatusCode::kDeadlineExceeded;
  }
  SECTION("a device that breaks") {
    options.device.faults.faults = {
        {.kind = Fault::Kind::kRefuse, .on = rdma::Opcode::kSend, .nth = 20}};
    code = absl::StatusCode::kInternal;
  }
  const bool patient = code != absl::StatusCode::kDeadlineExceeded;
  CHECK((patient ? Measured(options) : MeasureShmThreshold(options)).status().code() == code);
}

}  // namespace
}  // namespace farcall::testing
