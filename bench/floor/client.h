// The floor's client: runs one workload against a floor server and checks every reply.
#ifndef FARCALL_BENCH_FLOOR_CLIENT_H_
#define FARCALL_BENCH_FLOOR_CLIENT_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/bench/floor/message_reader.h"
#include "farcall/bench/floor/stream.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// One connection. Not thread-safe; drives its socket on the calling thread.
class FloorClient {
 public:
  // Connects to a floor server of the same mode on this host. A call that makes no progress for
  // `patience` fails.
  static absl::StatusOr<FloorClient> Connect(uint16_t port, Mode mode,
                                             std::chrono::seconds patience);

  // Runs the workload, warm-up first, and returns what it found with the CPU time of this process
  // and of `server`. Wrong replies are counted as errors; a broken or silent connection ends the
  // run with its status. Replies are compared in full at the start and the end, and by length and
  // stamps always.
  absl::StatusOr<Measurement> Run(const Workload& workload, pid_t server);

 private:
  explicit FloorClient(Stream stream) : stream_(std::move(stream)) {}

  Stream stream_;
  MessageReader reader_;
  uint64_t next_call_ = 0;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_CLIENT_H_
