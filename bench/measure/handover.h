// A measurement as a line of text: from the process that made it to the one that reports it.
#ifndef FARCALL_BENCH_MEASURE_HANDOVER_H_
#define FARCALL_BENCH_MEASURE_HANDOVER_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// Without a newline; what went on beside it is left out.
std::string ToLine(const Measurement& measurement);

// What ToLine was given, its round trips as exact as its histogram. INVALID_ARGUMENT: no line of
// its kind.
absl::StatusOr<Measurement> FromLine(std::string_view line);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_HANDOVER_H_
