// Time as an argument: everything that waits asks a Clock, so that tests and simulations own time.

#ifndef FARCALL_RPC_CLOCK_H_
#define FARCALL_RPC_CLOCK_H_

#include <algorithm>
#include <atomic>
#include <chrono>

namespace farcall {

// Options and arguments that say how long something may take or wait take any value;
// Duration::max() is for ever.
using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// `time` moved by `wait`, or the end of time that the sum would pass; it never overflows.
constexpr TimePoint After(TimePoint time, Duration wait) {
  if (wait > Duration::zero()) {
    return wait > TimePoint::max() - std::max(time, TimePoint()) ? TimePoint::max() : time + wait;
  }
  return wait < TimePoint::min() - std::min(time, TimePoint()) ? TimePoint::min() : time + wait;
}

// Monotonic time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;

  // The machine's steady clock; never destroyed.
  static Clock& Steady();
};

// A clock that moves only when told to. Thread-safe.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(now_ns_.load())); }
  void Advance(Duration by) { now_ns_.fetch_add(by.count()); }

 private:
  std::atomic<Duration::rep> now_ns_{Duration(std::chrono::hours(1)).count()};
};

}  // namespace farcall

#endif  // FARCALL_RPC_CLOCK_H_
