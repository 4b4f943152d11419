// rpc/event_loop and rpc/timer_wheel: what a call does with them.
#include <benchmark/benchmark.h>

#include <vector>

#include "farcall/bench/micro/heap_count.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/timer_wheel.h"

namespace farcall::bench {
namespace {

class Deadline final : public Timer {
 public:
  void OnTimer() override {}
};

// Beside other armed timers, one a millisecond: calls in flight.
void ArmsAndDisarms(benchmark::State& state) {
  const TimePoint start = Clock::Steady().Now();
  TimerWheel wheel(start);
  std::vector<Deadline> others(static_cast<size_t>(state.range(0)));
  for (size_t i = 0; i < others.size(); ++i) {
    wheel.Arm(others[i], start + std::chrono::milliseconds(i));
  }
  Deadline timer;
  const CountAllocations count(state);
  for (auto _ : state) {
    wheel.Arm(timer, start + std::chrono::seconds(10));
    timer.Disarm();
  }
}
BENCHMARK(ArmsAndDisarms)->Name("timer/arm_and_disarm")->ArgName("armed")->Arg(0)->Arg(10'000);

constexpr int kTasks = 1000;

// Submits one task again and again from the driver, as callbacks do that start the next call.
class Relay final : public BlockingTask {
 public:
  explicit Relay(EventLoop& loop) : loop_(loop) {}
  void Run() override {
    left_ = kTasks;
    next_.Run();
  }

 private:
  class Next final : public LoopTask {
   public:
    explicit Next(Relay& relay) : relay_(relay) {}
    void Run() override { relay_.Step(); }

   private:
    Relay& relay_;
  };

  void Step() {
    if (left_-- > 0) {
      loop_.Submit(next_);
    } else {
      Finish();
    }
  }

  EventLoop& loop_;
  Next next_{*this};
  int left_ = 0;
};

void Submits(benchmark::State& state) {
  EventLoop loop({.mode = ProgressMode::kBusy, .helper_thread = false});
  Relay relay(loop);
  const CountAllocations count(state, kTasks);
  for (auto _ : state) {
    if (!loop.RunBlocking(relay).ok()) return state.SkipWithError("the loop refused");
  }
  state.SetItemsProcessed(state.iterations() * kTasks);
}
BENCHMARK(Submits)->Name("loop/submit_1000_turns");

// A blocking call's way onto the loop and off it.
class Nothing final : public BlockingTask {
 public:
  void Run() override { Finish(); }
};

void RunsBlocking(benchmark::State& state) {
  EventLoop loop({.mode = ProgressMode::kBusy, .helper_thread = false});
  const CountAllocations count(state);
  for (auto _ : state) {
    Nothing nothing;
    if (!loop.RunBlocking(nothing).ok()) return state.SkipWithError("the loop refused");
  }
}
BENCHMARK(RunsBlocking)->Name("loop/run_blocking");

}  // namespace
}  // namespace farcall::bench
