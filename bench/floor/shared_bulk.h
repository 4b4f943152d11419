// The floor of bulk transfers over shared memory: one memcpy a body, of bytes that the other
// process has written, with as many bodies on their way as the workload says.
#ifndef FARCALL_BENCH_FLOOR_SHARED_BULK_H_
#define FARCALL_BENCH_FLOOR_SHARED_BULK_H_

#include <sys/types.h>

#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/bench/floor/shared_slots.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// Both sides have as many bodies as there are slots: each is read into one of its own, never twice
// in a row into the same. Requests are built where they are read from, and only their stamps are
// new each time; a large reply is written anew each time, from memory that the client cannot read.

// Answers each call, on the calling thread, until none has come for `patience` (OK).
absl::Status ServeBulk(SharedSlots& slots, std::chrono::seconds patience);

// Runs a workload with `slots.shape().slots` calls outstanding, warm-up first, and returns what it
// found with the CPU time of this process and of `server`. Replies are compared in full at the
// start and the end, and by length and stamps always. Once for a SharedSlots.
absl::StatusOr<Measurement> RunBulk(SharedSlots& slots, const Workload& workload, pid_t server,
                                    std::chrono::seconds patience);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_SHARED_BULK_H_
