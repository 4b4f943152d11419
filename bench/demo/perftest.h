// perftest's programs, out of their output: what verbs do on this machine without us.
#ifndef FARCALL_BENCH_DEMO_PERFTEST_H_
#define FARCALL_BENCH_DEMO_PERFTEST_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// The program and its arguments for a workload that IsOfVerbs, beside the address and how the two
// sides find each other.
std::vector<std::string> PerftestCommand(const Workload& workload);

// What its client printed. A latency: of each operation, without the first ones, which are its
// warm-up; of SENDs half a round trip, as it prints them. A bandwidth: the average, and for
// latencies the time that one READ takes when so many are under way at this rate (Little's law).
// UNAVAILABLE: its figures are none, for it did not find out how fast the processor's clock is,
// which happens on busy emulated machines: run it again. INVALID_ARGUMENT: it printed something
// else.
absl::StatusOr<Measurement> FromPerftest(const Workload& workload, std::string_view output);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_PERFTEST_H_
