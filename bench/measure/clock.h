// The clocks of a measurement: time that passed, and CPU time that processes used.
#ifndef FARCALL_BENCH_MEASURE_CLOCK_H_
#define FARCALL_BENCH_MEASURE_CLOCK_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace farcall::bench {

// Nanoseconds on the monotonic clock; only differences mean anything. Any thread; about 25 ns.
uint64_t NowNs();

// User and system time of all threads of this process so far, in nanoseconds. Any thread.
uint64_t OwnCpuNs();

// The same of another process. NOT_FOUND when it does not exist (any more).
absl::StatusOr<uint64_t> CpuNsOf(pid_t pid);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_CLOCK_H_
