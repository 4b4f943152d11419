// TimerWheel: many deadlines behind one coarse clock, without a timer call for each.
//
// A hashed wheel of 1 ms ticks with intrusive nodes: adding and removing is O(1) and allocates
// nothing. A deadline fires at the first Advance at or after it, up to one tick late, never early.
// Not thread-safe: it belongs to the driver of its loop.

#ifndef FARCALL_RPC_TIMER_WHEEL_H_
#define FARCALL_RPC_TIMER_WHEEL_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "farcall/rpc/clock.h"

namespace farcall {

class TimerWheel;

// One deadline. Derive (or hold) and implement OnTimer. Destroying an armed timer disarms it.
class Timer {
 public:
  Timer() = default;
  virtual ~Timer() { Disarm(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  bool armed() const { return wheel_ != nullptr; }
  TimePoint deadline() const { return deadline_; }
  void Disarm();

  // Runs once when the deadline passed; the timer is disarmed before and may be armed again or
  // destroyed.
  virtual void OnTimer() = 0;

 private:
  friend class TimerWheel;
  TimerWheel* wheel_ = nullptr;
  Timer* previous_ = nullptr;
  Timer* next_ = nullptr;
  TimePoint deadline_{};
  size_t slot_ = 0;
};

class TimerWheel {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(1);

  explicit TimerWheel(TimePoint start) : current_(start) {}
  ~TimerWheel();  // disarms what is left

  // Arms `timer` for `deadline` (re-arms it if armed). A deadline in the past fires at the next
  // Advance.
  void Arm(Timer& timer, TimePoint deadline);

  // Fires everything due at `now`; returns how many fired. A clock that steps back fires nothing.
  size_t Advance(TimePoint now);

  // When Advance should be called next: no later than one tick after the earliest deadline; it may
  // be earlier. TimePoint::max() when nothing is armed.
  TimePoint NextWake() const;

  size_t size() const { return size_; }

 private:
  friend class Timer;
  static constexpr size_t kSlots =
      1024;  // one round is about a second: default deadlines see few rounds

  void Unlink(Timer& timer);

  std::array<Timer*, kSlots> slots_{};
  std::array<uint64_t, kSlots / 64> occupied_{};
  TimePoint current_;
  size_t size_ = 0;
};

}  // namespace farcall

#endif  // FARCALL_RPC_TIMER_WHEEL_H_
