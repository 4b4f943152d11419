// Verbs for tests of the event loop.

#ifndef FARCALL_TESTS_RPC_LOOP_TESTING_H_
#define FARCALL_TESTS_RPC_LOOP_TESTING_H_

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "farcall/rpc/event_loop.h"

namespace farcall {

using namespace std::chrono_literals;  // NOLINT(google-global-names-in-headers): tests only

class FunctionTask final : public LoopTask {
 public:
  explicit FunctionTask(std::function<void()> run) : run_(std::move(run)) {}
  void Run() override { run_(); }

 private:
  std::function<void()> run_;
};

// A blocking call whose work is a function; the function, or something it starts, calls Finish.
class Call final : public BlockingTask {
 public:
  explicit Call(std::function<void(Call&)> start) : start_(std::move(start)) {}
  void Run() override {
    ran_on = std::this_thread::get_id();
    start_(*this);
  }

  std::thread::id ran_on;

 private:
  std::function<void(Call&)> start_;
};

// Waits until `condition` holds, for far longer than it should take.
template <typename Condition>
bool Eventually(Condition condition, std::chrono::milliseconds limit = 20s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(200us);
  }
  return true;
}

inline EventLoopOptions InMode(ProgressMode mode) {
  EventLoopOptions options;
  options.mode = mode;
  options.spin = 20us;  // also where the default would be 0
  return options;
}

inline EventLoopOptions NoHelper(Clock* clock = nullptr) {
  EventLoopOptions options;
  options.helper_thread = false;
  options.clock = clock;
  return options;
}

// The thread that drives the loop when nobody is blocked in it.
inline std::thread::id HelperOf(EventLoop& loop) {
  std::atomic<bool> known{false};
  std::thread::id id;
  loop.Post([&] {
    id = std::this_thread::get_id();
    known = true;
  });
  REQUIRE(Eventually([&] { return known.load(); }));
  return id;
}

}  // namespace farcall

#endif  // FARCALL_TESTS_RPC_LOOP_TESTING_H_
