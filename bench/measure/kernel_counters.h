// What the kernel counts of processes while they run: nothing in them is changed for it.
#ifndef FARCALL_BENCH_MEASURE_KERNEL_COUNTERS_H_
#define FARCALL_BENCH_MEASURE_KERNEL_COUNTERS_H_

#include <sys/types.h>

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// Perf events on every thread that the processes have and will start: the entry of system calls (a
// tracepoint), context switches, and calls of the C library's functions that take memory from the
// heap (probes on malloc and its like, where operator new ends as well). All of them slow down what
// they count, a call of malloc by a microsecond or two, so that nothing is timed meanwhile.
//
// Not thread-safe.
class KernelCounters {
 public:
  // Stopped. All of the processes use this one's C library; this one comes first, so that starting
  // and stopping counts for nothing. PERMISSION_DENIED, UNIMPLEMENTED or what else the kernel says
  // when it does not let us count.
  static absl::StatusOr<KernelCounters> Open(std::span<const pid_t> processes);

  KernelCounters(KernelCounters&& other) noexcept : events_(std::move(other.events_)) {
    other.events_.clear();
  }
  KernelCounters& operator=(KernelCounters&& other) = delete;
  ~KernelCounters();

  void Start();
  void Stop();
  // What was counted between Start and Stop, of all processes together.
  Counts Read() const;

 private:
  struct Event {
    int fd;
    std::optional<uint64_t> Counts::*count;
  };

  KernelCounters() = default;

  std::vector<Event> events_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_KERNEL_COUNTERS_H_
