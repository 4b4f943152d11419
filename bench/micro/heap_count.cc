// A file of its own: inlined into other code, replaced operators look mismatched to g++.

#include "farcall/bench/micro/heap_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<uint64_t> allocations{0};
}  // namespace

namespace farcall::bench {
uint64_t HeapAllocations() { return allocations.load(std::memory_order_relaxed); }
}  // namespace farcall::bench

void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
