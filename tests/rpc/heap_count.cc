// A file of its own: inlined into other code, replaced operators look mismatched to g++.

#include "farcall/tests/rpc/heap_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<uint64_t> allocations{0};
std::atomic<uint64_t> allocated_bytes{0};

void Count(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  allocated_bytes.fetch_add(bytes, std::memory_order_relaxed);
}
}  // namespace

namespace farcall {
uint64_t HeapAllocations() { return allocations.load(); }
uint64_t HeapBytes() { return allocated_bytes.load(); }
}  // namespace farcall

// All forms, so that sanitizers see each pair whole.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  Count(bytes);
  return std::malloc(bytes);
}
void* operator new(size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  Count(bytes);
  const auto unit = static_cast<size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
