// The floor over shared memory: its server, and its client that runs a workload.
#ifndef FARCALL_BENCH_FLOOR_SHARED_ECHO_H_
#define FARCALL_BENCH_FLOOR_SHARED_ECHO_H_

#include <sys/types.h>

#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/bench/floor/shared_memory.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// Answers each message, on the calling thread, until none has come for `patience` (OK). A reply of
// its request's size is the request: it is read to where the reply is sent from.
absl::Status ServeShared(SharedMemory& memory, std::chrono::seconds patience);

// Runs a workload of one call at a time, whatever its `outstanding`, warm-up first, and returns
// what it found with the CPU time of this process and of `server`. Replies are copied to memory of
// this process, compared in full at the start and the end, and by length and stamps always.
absl::StatusOr<Measurement> RunShared(SharedMemory& memory, const Workload& workload, pid_t server,
                                      std::chrono::seconds patience);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_SHARED_ECHO_H_
