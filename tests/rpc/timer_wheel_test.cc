#include "farcall/rpc/timer_wheel.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace farcall {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1h + 123456ns};

class FunctionTimer final : public Timer {
 public:
  explicit FunctionTimer(std::function<void()> on_timer) : on_timer_(std::move(on_timer)) {}
  void OnTimer() override { on_timer_(); }

 private:
  std::function<void()> on_timer_;
};

TEST_CASE("a timer fires at its deadline and not before") {
  TimerWheel wheel(kStart);
  int fired = 0;
  FunctionTimer timer([&] { ++fired; });
  wheel.Arm(timer, kStart + 10ms);
  CHECK(timer.armed());
  CHECK(timer.deadline() == kStart + 10ms);
  CHECK(wheel.Advance(kStart + 10ms - 1ns) == 0);
  CHECK(wheel.Advance(kStart + 10ms) == 1);
  CHECK(fired == 1);
  CHECK_FALSE(timer.armed());
  CHECK(wheel.size() == 0);
  CHECK(wheel.Advance(kStart + 10s) == 0);
}

TEST_CASE("a deadline in the past fires at the next Advance, also when the clock stands still") {
  TimerWheel wheel(kStart);
  int fired = 0;
  FunctionTimer timer([&] { ++fired; });
  wheel.Arm(timer, TimePoint{});
  CHECK(wheel.NextWake() <= kStart);
  CHECK(wheel.Advance(kStart) == 1);
  CHECK(fired == 1);
}

TEST_CASE("a clock that steps back fires nothing and breaks nothing") {
  TimerWheel wheel(kStart);
  int fired = 0;
  FunctionTimer timer([&] { ++fired; });
  wheel.Arm(timer, kStart + 5ms);
  CHECK(wheel.Advance(kStart - 1h) == 0);
  CHECK(wheel.Advance(kStart + 4ms) == 0);
  CHECK(wheel.Advance(kStart + 5ms) == 1);
}

TEST_CASE("equal deadlines fire in the order of arming") {
  TimerWheel wheel(kStart);
  std::vector<int> order;
  FunctionTimer first([&] { order.push_back(1); });
  FunctionTimer second([&] { order.push_back(2); });
  FunctionTimer third([&] { order.push_back(3); });
  wheel.Arm(second, kStart + 1ms);
  wheel.Arm(first, kStart + 3ms);
  wheel.Arm(second, kStart + 3ms);
  wheel.Arm(third, kStart + 3ms);
  wheel.Advance(kStart + 4ms);
  CHECK(order == std::vector<int>{1, 2, 3});
}

TEST_CASE("a timer armed for the past from OnTimer waits for the next Advance") {
  TimerWheel wheel(kStart);
  int fired = 0;
  FunctionTimer timer([] {});
  FunctionTimer again([&] {
    ++fired;
    wheel.Arm(timer, TimePoint{});
  });
  wheel.Arm(again, kStart);
  CHECK(wheel.Advance(kStart + 1ms) == 1);
  CHECK(timer.armed());
  CHECK(wheel.NextWake() <= kStart + 1ms);
  CHECK(wheel.Advance(kStart + 1ms) == 1);
  CHECK(fired == 1);
}

TEST_CASE("OnTimer may destroy its own timer, its neighbours, or clear the wheel") {
  TimerWheel wheel(kStart);
  std::vector<std::unique_ptr<FunctionTimer>> timers;
  int fired = 0;
  SECTION("destroys all") {
    for (int i = 0; i < 5; ++i) {
      timers.push_back(std::make_unique<FunctionTimer>([&] {
        int& count = fired;  // the captures die with the timer
        auto doomed = std::move(timers);
        doomed.clear();
        ++count;
      }));
    }
  }
  SECTION("clears the wheel") {
    for (int i = 0; i < 5; ++i) {
      timers.push_back(std::make_unique<FunctionTimer>([&] {
        ++fired;
        wheel.Clear();
      }));
    }
  }
  for (auto& timer : timers) wheel.Arm(*timer, kStart + 2ms);
  CHECK(wheel.Advance(kStart + 1s) == 1);
  CHECK(fired == 1);
  CHECK(wheel.size() == 0);
}

TEST_CASE("timers outlive the wheel") {
  std::optional<TimerWheel> wheel(kStart);
  FunctionTimer timer([] {});
  wheel->Arm(timer, kStart + 1s);
  wheel.reset();
  CHECK_FALSE(timer.armed());
}

TEST_CASE("NextWake is exact enough: after the deadline, within a tick") {
  TimerWheel wheel(kStart);
  CHECK(wheel.NextWake() == TimePoint::max());
  FunctionTimer timer([] {});
  for (const Duration ahead : {Duration(1ns), Duration(999us), Duration(1ms), Duration(17ms),
                               Duration(500ms), Duration(1023ms)}) {
    wheel.Arm(timer, kStart + ahead);
    CHECK(wheel.NextWake() >= kStart + ahead);
    CHECK(wheel.NextWake() <= kStart + ahead + TimerWheel::kTick);
  }
  wheel.Arm(timer, TimePoint::max());
  CHECK(wheel.NextWake() > kStart);
  timer.Disarm();
  CHECK(wheel.NextWake() == TimePoint::max());
}

// ---- against a model, with random operations, also from inside OnTimer ----

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed), wheel_(kStart), now_(kStart) {
    for (size_t i = 0; i < kTimers; ++i) Recreate(i);
  }

  void Step() {
    switch (Pick(10)) {
      case 0:
        Recreate(PickTimer());
        break;
      case 1:
        Disarm(PickTimer());
        break;
      case 2:
        CHECK(wheel_.Advance(now_ - Pick(5000) * 1ms - 1ns) == 0);
        break;
      case 3:
      case 4:
      case 5:
        Advance();
        break;
      default:
        Arm(PickTimer());
    }
    CheckBooks();
  }

  size_t fired() const { return fired_; }

 private:
  static constexpr size_t kTimers = 60;

  struct Entry {
    std::unique_ptr<FunctionTimer> timer;
    std::optional<TimePoint> deadline;
    uint64_t armed_in = 0;  // the Advance during or after which it was armed
  };

  int64_t Pick(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }
  size_t PickTimer() { return random_() % kTimers; }
  Duration PickDuration() {
    switch (Pick(5)) {
      case 0:
        return Duration(Pick(3'000'000));  // within three ticks
      case 1:
        return Pick(50) * 1ms;  // on tick borders of an uneven start
      case 2:
        return Pick(100) * 100ms;  // up to ten rounds
      case 3:
        return 1024ms * Pick(4);  // the same slot again
      default:
        return Duration(Pick(1'000'000'000));
    }
  }

  void Recreate(size_t index) {
    entries_[index].timer = std::make_unique<FunctionTimer>([this, index] { OnTimer(index); });
    entries_[index].deadline.reset();
  }
  void Disarm(size_t index) {
    entries_[index].timer->Disarm();
    entries_[index].deadline.reset();
  }
  void Arm(size_t index) {
    const TimePoint deadline = now_ + PickDuration() - (Pick(4) == 0 ? Duration(1s) : Duration(0));
    wheel_.Arm(*entries_[index].timer, deadline);
    entries_[index].deadline = deadline;
    entries_[index].armed_in = advances_;
  }

  void Advance() {
    now_ += PickDuration();
    if (Pick(10) == 0) now_ += Pick(100) * 1s;
    ++advances_;
    const size_t before = fired_;
    const size_t fired = wheel_.Advance(now_);
    CHECK(fired == fired_ - before);
    bool overdue = false;
    for (const Entry& entry : entries_) {
      if (!entry.deadline || *entry.deadline > now_) continue;
      CHECK(entry.armed_in == advances_);  // armed by a callback of this very Advance
      overdue = true;
    }
    // Otherwise a sleeping loop would spin. A timer that a callback armed for the past and took
    // back may cost one look.
    if (!overdue && wheel_.NextWake() <= now_) CHECK(wheel_.Advance(now_) == 0);
    if (!overdue) CHECK(wheel_.NextWake() > now_);
  }

  void OnTimer(size_t index) {
    ++fired_;
    Entry& entry = entries_[index];
    REQUIRE(entry.deadline.has_value());
    CHECK(*entry.deadline <= now_);
    CHECK(entry.armed_in < advances_);
    CHECK_FALSE(entry.timer->armed());
    entry.deadline.reset();
    for (int64_t action = Pick(4); action > 0; --action) {
      switch (Pick(4)) {
        case 0:
          Arm(index);
          break;
        case 1:
          Arm(PickTimer());
          break;
        case 2:
          Disarm(PickTimer());
          break;
        default:
          // Its own destruction is the last thing that a callback may do.
          if (const size_t other = PickTimer(); other != index) Recreate(other);
      }
    }
  }

  void CheckBooks() {
    size_t armed = 0;
    TimePoint earliest = TimePoint::max();
    for (const Entry& entry : entries_) {
      REQUIRE(entry.timer->armed() == entry.deadline.has_value());
      if (!entry.deadline) continue;
      ++armed;
      earliest = std::min(earliest, *entry.deadline);
    }
    CHECK(wheel_.size() == armed);
    if (armed == 0) {
      CHECK(wheel_.NextWake() == TimePoint::max());
    } else {
      CHECK(wheel_.NextWake() <= std::max(earliest, now_) + TimerWheel::kTick);
      if (earliest <= now_) CHECK(wheel_.NextWake() <= now_);
    }
  }

  std::mt19937_64 random_;
  TimerWheel wheel_;
  TimePoint now_;
  uint64_t advances_ = 1;
  size_t fired_ = 0;
  std::array<Entry, kTimers> entries_;  // after the wheel: destroyed while it lives
};

TEST_CASE("random operations agree with a model") {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed=" << seed);
    Model model(seed);
    for (int step = 0; step < 1000; ++step) model.Step();
    CHECK(model.fired() > 100);
  }
}

}  // namespace
}  // namespace farcall
