// How often a benchmark goes to the heap. Linking heap_count.cc replaces operator new.
#ifndef FARCALL_BENCH_MICRO_HEAP_COUNT_H_
#define FARCALL_BENCH_MICRO_HEAP_COUNT_H_

#include <benchmark/benchmark.h>

#include <cstdint>

namespace farcall::bench {

// Calls of operator new so far, on all threads.
uint64_t HeapAllocations();

// Reports the allocations of its lifetime as the counter "allocs", for each item.
class CountAllocations {
 public:
  explicit CountAllocations(benchmark::State& state, double items_per_iteration = 1)
      : state_(state), items_per_iteration_(items_per_iteration) {}
  ~CountAllocations() {
    const auto allocations = static_cast<double>(HeapAllocations() - before_);
    state_.counters["allocs"] =
        benchmark::Counter(allocations / items_per_iteration_, benchmark::Counter::kAvgIterations);
  }
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;

 private:
  benchmark::State& state_;
  const double items_per_iteration_;
  const uint64_t before_ = HeapAllocations();
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MICRO_HEAP_COUNT_H_
