#include "farcall/rpc/mutex.h"

#include <chrono>
#include <thread>

namespace farcall {

// Its holder is about to leave, unless it was preempted: then it needs this core, whatever this
// thread's priority.
void SpinMutex::WaitAndLock() {
  constexpr int kSpins = 200;
  while (true) {
    for (int i = 0; i < kSpins; ++i) {
      if (!taken_.load(std::memory_order_relaxed) &&
          !taken_.exchange(true, std::memory_order_acquire)) {
        return;
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace farcall
