// The floor of a round trip over shared memory: its server, and its client that runs a workload.
#ifndef FARCALL_BENCH_FLOOR_SHARED_ECHO_H_
#define FARCALL_BENCH_FLOOR_SHARED_ECHO_H_

#include <sys/types.h>

#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/bench/floor/shared_memory.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// Answers each message with itself, on the calling thread, until none has come for `patience` (OK).
// It is read to where the reply is sent from.
absl::Status ServeShared(SharedMemory& memory, std::chrono::seconds patience);

// Runs a latency workload, warm-up first, and returns what it found with the CPU time of this
// process and of `server`. Replies are copied to memory of this process, compared in full at the
// start and the end, and by length and stamps always.
absl::StatusOr<Measurement> RunShared(SharedMemory& memory, const Workload& workload, pid_t server,
                                      std::chrono::seconds patience);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_SHARED_ECHO_H_
