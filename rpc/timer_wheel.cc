#include "farcall/rpc/timer_wheel.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace farcall {
namespace {

// The tick that `time` falls in.
int64_t TickOf(TimePoint time) {
  return std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
}

TimePoint EndOfTick(int64_t tick) { return TimePoint(std::chrono::milliseconds(tick + 1)); }

}  // namespace

static_assert(TimerWheel::kTick == std::chrono::milliseconds(1), "TickOf counts milliseconds");

void Timer::Disarm() {
  if (wheel_ != nullptr) wheel_->Unlink(*this);
}

void TimerWheel::Link(Timer& timer, size_t slot) {
  Timer*& first = slots_[slot];
  if (first == nullptr) {
    first = timer.previous_ = timer.next_ = &timer;
  } else {
    timer.next_ = first;
    timer.previous_ = first->previous_;
    first->previous_->next_ = &timer;
    first->previous_ = &timer;
  }
  if (slot != kFiring) occupied_[slot / 64] |= uint64_t{1} << (slot % 64);
  timer.slot_ = slot;
  timer.wheel_ = this;
  ++size_;
}

void TimerWheel::Unlink(Timer& timer) {
  Timer*& first = slots_[timer.slot_];
  if (timer.next_ == &timer) {
    first = nullptr;
    const size_t slot = timer.slot_;
    if (slot != kFiring) occupied_[slot / 64] &= ~(uint64_t{1} << (slot % 64));
  } else {
    timer.previous_->next_ = timer.next_;
    timer.next_->previous_ = timer.previous_;
    if (first == &timer) first = timer.next_;
  }
  timer.previous_ = timer.next_ = nullptr;
  timer.wheel_ = nullptr;
  --size_;
}

void TimerWheel::Arm(Timer& timer, TimePoint deadline) {
  timer.Disarm();
  timer.deadline_ = deadline;
  if (deadline <= current_) overdue_ = true;
  const int64_t tick = TickOf(std::max(deadline, current_));
  Link(timer, static_cast<uint64_t>(tick) % kSlots);
}

void TimerWheel::CollectDue(size_t slot, TimePoint now) {
  Timer* timer = slots_[slot];
  if (timer == nullptr) return;
  Timer* const last = timer->previous_;
  for (bool more = true; more;) {
    Timer* const next = timer->next_;
    more = timer != last;
    if (timer->deadline_ <= now) {  // others of this slot belong to a later round or moment
      Unlink(*timer);
      Link(*timer, kFiring);
    }
    timer = next;
  }
}

size_t TimerWheel::Advance(TimePoint now) {
  if (now < current_) return 0;
  const int64_t from = TickOf(current_);
  // From the current tick, which may have been left half done, to now's; one round sees them all.
  const auto ticks = std::min<uint64_t>(static_cast<uint64_t>(TickOf(now) - from) + 1, kSlots);
  current_ = now;
  overdue_ = false;
  if (size_ == 0) return 0;
  for (uint64_t i = 0; i < ticks; ++i) CollectDue((static_cast<uint64_t>(from) + i) % kSlots, now);

  // One by one from the front: a callback may disarm, arm or destroy any of them.
  size_t fired = 0;
  while (Timer* timer = slots_[kFiring]) {
    Unlink(*timer);
    ++fired;
    timer->OnTimer();
  }
  return fired;
}

TimePoint TimerWheel::NextWake() const {
  if (size_ == 0) return TimePoint::max();
  if (overdue_) return current_;
  const int64_t tick = TickOf(current_);
  const size_t start = static_cast<uint64_t>(tick) % kSlots;
  // Words of the bitmap from the current slot on and around to it again, the first in two parts.
  for (size_t i = 0; i <= occupied_.size(); ++i) {
    const size_t word = (start / 64 + i) % occupied_.size();
    uint64_t bits = occupied_[word];
    const uint64_t from_start = ~uint64_t{0} << (start % 64);
    if (i == 0) bits &= from_start;
    if (i == occupied_.size()) bits &= ~from_start;
    if (bits == 0) continue;
    const size_t slot = word * 64 + static_cast<size_t>(std::countr_zero(bits));
    return EndOfTick(tick + static_cast<int64_t>((slot + kSlots - start) % kSlots));
  }
  return current_;  // only timers about to fire are left: from inside OnTimer
}

void TimerWheel::Clear() {
  for (Timer*& first : slots_) {
    while (first != nullptr) Unlink(*first);
  }
}

}  // namespace farcall
