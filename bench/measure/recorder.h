// What a measured client tells of its calls: the warm-up, then the measured part.
#ifndef FARCALL_BENCH_MEASURE_RECORDER_H_
#define FARCALL_BENCH_MEASURE_RECORDER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// User and system time of both sides so far, in nanoseconds. Empty: nobody knows.
using CpuMeter = std::function<absl::StatusOr<uint64_t>()>;

// That of this process and of `server`.
CpuMeter CpuOfThisAnd(pid_t server);

// Not thread-safe. The warm-up begins when it is made.
class Recorder {
 public:
  Recorder(const Workload& workload, CpuMeter cpu);

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
  const CpuMeter cpu_;
  Phase phase_ = Phase::kWarmUp;
  uint64_t phase_end_ns_;
  uint64_t start_ns_ = 0;
  std::optional<uint64_t> start_cpu_ns_;
  Measurement measurement_;
  absl::Status status_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_RECORDER_H_
