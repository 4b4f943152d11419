// Heap allocations of processes, each counted by measure/malloc_count.cc in its own.
#ifndef FARCALL_BENCH_MEASURE_HEAP_COUNT_H_
#define FARCALL_BENCH_MEASURE_HEAP_COUNT_H_

#include <sys/types.h>

#include <string>

namespace farcall::bench {

// While one lives, this process counts, and so do those that it starts. Changes the environment:
// one at a time, on a thread that nobody runs beside. It costs an allocation a few nanoseconds.
class CountHeaps {
 public:
  // Where the counting library is not beside this program, started processes do not count.
  CountHeaps();
  ~CountHeaps();
  CountHeaps(const CountHeaps&) = delete;
  CountHeaps& operator=(const CountHeaps&) = delete;

 private:
  std::string folder_;
};

// Of this process or of one that it started, or that was started like it: a descriptor of the file
// that holds the count as one uint64_t, for the caller to close. -1: that process does not count.
int OpenHeapCountOf(pid_t process);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_HEAP_COUNT_H_
