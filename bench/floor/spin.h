// Waiting for another process without sleeping, for a bounded time.
#ifndef FARCALL_BENCH_FLOOR_SPIN_H_
#define FARCALL_BENCH_FLOOR_SPIN_H_

#include <chrono>
#include <cstdint>

#include "farcall/bench/measure/clock.h"

namespace farcall::bench {

// Looks until `there()`; false when it was not for `patience`.
template <class There>
bool SpinUntil(There there, std::chrono::seconds patience) {
  // Reading the clock costs as much as hundreds of looks at a cache line.
  constexpr int kLooksPerClockRead = 4096;
  uint64_t give_up_ns = 0;
  for (int looks = 1; !there(); ++looks) {
    if (looks % kLooksPerClockRead != 0) continue;
    const uint64_t now_ns = NowNs();
    if (give_up_ns == 0) {
      give_up_ns = now_ns + static_cast<uint64_t>(std::chrono::nanoseconds(patience).count());
    }
    if (now_ns > give_up_ns) return false;
  }
  return true;
}

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_SPIN_H_
