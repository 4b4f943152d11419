// Tells AddressSanitizer which memory of a pool nobody may touch. Nothing in other builds.

#ifndef FARCALL_RPC_POISON_H_
#define FARCALL_RPC_POISON_H_

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FARCALL_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FARCALL_ADDRESS_SANITIZER 1
#endif

#ifdef FARCALL_ADDRESS_SANITIZER
// Of the sanitizer's runtime; declared here because not every toolchain installs its headers.
extern "C" void __asan_poison_memory_region(const volatile void* memory, std::size_t bytes);
extern "C" void __asan_unpoison_memory_region(const volatile void* memory, std::size_t bytes);
#endif

namespace farcall {

// From now on a touch of these bytes is reported as a use after the release.
inline void Poison([[maybe_unused]] const void* memory, [[maybe_unused]] size_t bytes) {
#ifdef FARCALL_ADDRESS_SANITIZER
  __asan_poison_memory_region(memory, bytes);
#endif
}

inline void Unpoison([[maybe_unused]] const void* memory, [[maybe_unused]] size_t bytes) {
#ifdef FARCALL_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

}  // namespace farcall

#endif  // FARCALL_RPC_POISON_H_
