// rpc/buffer_pool: leasing memory and giving it back.
#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "farcall/bench/micro/heap_count.h"
#include "farcall/rpc/buffer_pool.h"

namespace farcall::bench {
namespace {

void AllocatesAndFrees(benchmark::State& state) {
  BufferPool pool;
  const auto bytes = static_cast<size_t>(state.range(0));
  const CountAllocations count(state);
  for (auto _ : state) {
    absl::StatusOr<Buffer> buffer = pool.Allocate(bytes);
    if (!buffer.ok()) return state.SkipWithError("the pool is dry");
    benchmark::DoNotOptimize(buffer->data());
  }
}
BENCHMARK(AllocatesAndFrees)
    ->Name("pool/allocate_and_free")
    ->ArgName("bytes")
    ->Arg(512)
    ->Arg(1 << 20);

// From one thread to another, in order; both yield while they have to wait.
class Conveyor {
 public:
  void Put(Buffer buffer) {
    const size_t at = put_.load(std::memory_order_relaxed);
    while (at - taken_.load(std::memory_order_acquire) == places_.size()) std::this_thread::yield();
    places_[at % places_.size()] = std::move(buffer);
    put_.store(at + 1, std::memory_order_release);
  }
  Buffer Take() {
    const size_t at = taken_.load(std::memory_order_relaxed);
    while (put_.load(std::memory_order_acquire) == at) std::this_thread::yield();
    Buffer buffer = std::move(places_[at % places_.size()]);
    taken_.store(at + 1, std::memory_order_release);
    return buffer;
  }

 private:
  std::array<Buffer, 64> places_;
  alignas(64) std::atomic<size_t> put_{0};
  alignas(64) std::atomic<size_t> taken_{0};
};

// One thread allocates, the other frees: a reply that its caller keeps, a request from elsewhere.
void AllocatesHereAndFreesThere(benchmark::State& state) {
  struct Shared {
    BufferPool pool;
    Conveyor conveyor;
  };
  static std::unique_ptr<Shared> shared;
  if (state.thread_index() == 0) shared = std::make_unique<Shared>();
  for (auto _ : state) {  // both threads begin together
    if (state.thread_index() != 0) {
      shared->conveyor.Take().Reset();
      continue;
    }
    absl::StatusOr<Buffer> buffer = shared->pool.Allocate(512);
    shared->conveyor.Put(buffer.ok() ? *std::move(buffer) : Buffer());
  }
  if (state.thread_index() == 0) shared.reset();  // and end together
}
BENCHMARK(AllocatesHereAndFreesThere)
    ->Name("pool/allocate_here_free_there")
    ->Threads(2)
    ->UseRealTime();

}  // namespace
}  // namespace farcall::bench
