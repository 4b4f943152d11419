// Which cores a measurement runs on, and how far apart they are.
#ifndef FARCALL_BENCH_MEASURE_CORES_H_
#define FARCALL_BENCH_MEASURE_CORES_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farcall::bench {

// The cores that this thread may run on, ascending.
std::vector<int> AllowedCores();

// Pins the calling thread (and threads and processes that it starts from now on) to one core.
absl::Status PinThisThread(int core);

// Half the round trip of one cache line between the two cores, in nanoseconds: the median of
// several short batches, so that a preemption or two do not show. Takes a few milliseconds with
// idle cores and at most about a second; UNAVAILABLE when they were too busy for a result,
// INVALID_ARGUMENT when the cores are the same or one of them is not ours. Blocks; runs two threads
// of its own.
absl::StatusOr<double> CoreDistanceNs(int core_a, int core_b);

// A virtual machine's host moves its cores, within seconds, and results change up to threefold:
// what was measured at one distance says nothing about what was measured at another.
enum class CoreDistance { kUnknown, kSameCore, kNear, kFar };

// Half round trips seen: 14 ns between two threads of one core, 30 ns within a cache complex,
// 160 ns across; borders lie (geometrically) between. nullopt is kUnknown.
CoreDistance GroupOf(std::optional<double> core_distance_ns);

const char* NameOf(CoreDistance group);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_CORES_H_
