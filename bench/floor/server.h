// The floor's server: answers each message with the least work that a server can do.
#ifndef FARCALL_BENCH_FLOOR_SERVER_H_
#define FARCALL_BENCH_FLOOR_SERVER_H_

#include "absl/status/status.h"
#include "farcall/bench/floor/stream.h"

namespace farcall::bench {

// Serves one connection on the calling thread until its client closes it (OK then) or breaks it.
// Drains what is there, and answers it in one write.
absl::Status ServeFloor(Stream& stream);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_SERVER_H_
