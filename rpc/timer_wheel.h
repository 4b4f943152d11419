// TimerWheel: many deadlines behind one coarse clock, without a timer call for each.
//
// A hashed wheel of 1 ms ticks with intrusive nodes: adding and removing is O(1) and allocates
// nothing. A deadline fires at the first Advance at or after it, never early; NextWake, which says
// when to call Advance, is up to one tick late, so that deadlines close together share one wake-up.
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
  ~TimerWheel() { Clear(); }
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  // Arms `timer` for `deadline` (re-arms it if armed). A deadline in the past fires at the next
  // Advance; armed from inside OnTimer, at the one after this.
  void Arm(Timer& timer, TimePoint deadline);

  // Fires everything due at `now`; returns how many fired. A clock that steps back fires nothing.
  // Not to be called from inside OnTimer.
  size_t Advance(TimePoint now);

  // When Advance should be called next: no later than one tick after the earliest deadline, and at
  // once for one in the past; it may be earlier. TimePoint::max() when nothing is armed.
  TimePoint NextWake() const;

  // Disarms everything; also from inside OnTimer.
  void Clear();

  size_t size() const { return size_; }

 private:
  friend class Timer;
  // One round is about a second: default deadlines see few rounds.
  static constexpr size_t kSlots = 1024;
  static constexpr size_t kFiring = kSlots;  // the list of those that Advance is about to fire

  void Link(Timer& timer, size_t slot);
  void Unlink(Timer& timer);
  void CollectDue(size_t slot, TimePoint now);

  std::array<Timer*, kSlots + 1> slots_{};  // circular lists, first in first out
  std::array<uint64_t, kSlots / 64> occupied_{};
  TimePoint current_;     // of the last Advance
  bool overdue_ = false;  // something was armed for current_ or before
  size_t size_ = 0;
};

}  // namespace farcall

#endif  // FARCALL_RPC_TIMER_WHEEL_H_
