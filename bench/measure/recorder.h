// What a measured client tells of its calls: the warm-up, then the measured part.
#ifndef FARCALL_BENCH_MEASURE_RECORDER_H_
#define FARCALL_BENCH_MEASURE_RECORDER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/bench/measure/process_counters.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// What is taken at both ends of the measured part.
struct Meters {
  // User and system time of both sides so far, in nanoseconds. Empty: nobody knows.
  std::function<absl::StatusOr<uint64_t>()> cpu = nullptr;
  std::shared_ptr<ProcessCounters> counters = nullptr;  // none: nothing is counted
};

// Of this process and of `server`, unless that is a thread of this one; counters when `workload` is
// counted and the kernel has them.
Meters MetersOf(const Workload& workload, std::optional<pid_t> server);

// For a client that records by itself: `run(end_ns)` makes calls until then, on NowNs's clock, and
// `measurement` gets what passed and what it cost meanwhile.
absl::Status RunMetered(const Workload& workload, pid_t server, Measurement& measurement,
                        const std::function<absl::Status(uint64_t end_ns)>& run);

// Not thread-safe. The warm-up begins when it is made.
class Recorder {
 public:
  Recorder(const Workload& workload, Meters meters);

  // A call ended: `outcome` is OK, DATA_LOSS for a wrong reply, which is counted, or why a call
  // failed: the transport or the server is broken then, and the run is over. False: start no more;
  // those still under way are told of as well.
  bool Take(uint64_t started_ns, uint64_t now_ns, const absl::Status& outcome);

  // When no call is under way any more.
  absl::StatusOr<Measurement> Result() &&;

 private:
  enum class Phase { kWarmUp, kMeasured, kOver };

  void EndPhase();
  absl::StatusOr<std::optional<uint64_t>> CpuNs() const;
  void CountError(const absl::Status& outcome);
  void Stop(const absl::Status& status);

  const uint64_t duration_ns_;
  const Meters meters_;
  Phase phase_ = Phase::kWarmUp;
  uint64_t phase_end_ns_;
  uint64_t start_ns_ = 0;
  std::optional<uint64_t> start_cpu_ns_;
  Measurement measurement_;
  absl::Status status_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_RECORDER_H_
