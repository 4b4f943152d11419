// What processes cost besides time, counted from outside while they run.
#ifndef FARCALL_BENCH_MEASURE_PROCESS_COUNTERS_H_
#define FARCALL_BENCH_MEASURE_PROCESS_COUNTERS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// By perf events on every thread that the processes have and will start: the entry of system calls
// (a tracepoint, which makes all system calls slower) and context switches. By what the processes
// count themselves: heap allocations, where all of them do (measure/heap_count.h).
//
// Not thread-safe.
class ProcessCounters {
 public:
  // Stopped. This process comes first, so that starting and stopping counts for nothing.
  // PERMISSION_DENIED, UNIMPLEMENTED or what else the kernel says when it does not let us count.
  static absl::StatusOr<ProcessCounters> Open(std::span<const pid_t> processes);

  ProcessCounters(ProcessCounters&& other) noexcept
      : events_(std::move(other.events_)), heaps_(std::move(other.heaps_)) {
    other.events_.clear();
    other.heaps_.clear();
  }
  ProcessCounters& operator=(ProcessCounters&& other) = delete;
  ~ProcessCounters();

  void Start();
  void Stop();
  // What was counted between Start and Stop, of all processes together.
  Counts Read() const;

 private:
  struct Event {
    int fd;
    std::optional<uint64_t> Counts::*count;
  };

  // A process's own count.
  struct Heap {
    int fd;
    uint64_t before = 0, after = 0;
  };

  ProcessCounters() = default;
  void CloseHeaps();

  std::vector<Event> events_;
  std::vector<Heap> heaps_;  // of all the processes, or of none
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_PROCESS_COUNTERS_H_
