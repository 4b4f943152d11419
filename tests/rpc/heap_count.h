// Counts the heap allocations of a test program. Linking heap_count.cc replaces operator new.

#ifndef FARCALL_TESTS_RPC_HEAP_COUNT_H_
#define FARCALL_TESTS_RPC_HEAP_COUNT_H_

#include <cstdint>

namespace farcall {

// Calls of operator new so far, on all threads.
uint64_t HeapAllocations();
// Bytes that they asked for.
uint64_t HeapBytes();

}  // namespace farcall

#endif  // FARCALL_TESTS_RPC_HEAP_COUNT_H_
