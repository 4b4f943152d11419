// What one thread, or a caller and the helper, can see of the event loop.

#include "farcall/rpc/event_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/tests/rpc/loop_testing.h"

namespace farcall {
namespace {

ProgressMode EveryMode() {
  return GENERATE(ProgressMode::kEvent, ProgressMode::kBusy, ProgressMode::kAdaptive);
}

// ---- submitting ----

TEST_CASE("posted work runs in order, whoever drives") {
  EventLoop loop(InMode(EveryMode()));
  std::vector<int> order;
  std::atomic<bool> done{false};
  for (int i = 0; i < 1000; ++i) loop.Post([&order, i] { order.push_back(i); });
  loop.Post([&] { done = true; });
  if (GENERATE(false, true)) {
    Call call([](Call& self) { self.Finish(); });
    REQUIRE(loop.RunBlocking(call).ok());
    CHECK(done);  // it came first
  }
  REQUIRE(Eventually([&] { return done.load(); }));
  REQUIRE(order.size() == 1000);
  for (int i = 0; i < 1000; ++i) CHECK(order[static_cast<size_t>(i)] == i);
}

TEST_CASE("a task that is queued already runs once") {
  EventLoop loop(NoHelper());
  int runs = 0;
  FunctionTask task([&] { ++runs; });
  loop.Submit(task);
  loop.Submit(task);
  CHECK(loop.RunOnce() == 1);
  CHECK(runs == 1);
  loop.Submit(task);
  CHECK(loop.RunOnce() == 1);
  CHECK(runs == 2);
  CHECK(loop.RunOnce() == 0);
}

TEST_CASE("what a task submits runs in a later turn, never inline") {
  EventLoop loop(NoHelper());
  int runs = 0;
  std::optional<FunctionTask> task;
  task.emplace([&] {
    if (++runs < 3) loop.Submit(*task);
  });
  loop.Submit(*task);
  CHECK(runs == 0);
  for (int turn = 1; turn <= 3; ++turn) {
    CHECK(loop.RunOnce() == 1);
    CHECK(runs == turn);
  }
}

TEST_CASE("a task may destroy itself") {
  EventLoop loop(NoHelper());
  auto* task = new std::optional<FunctionTask>;
  task->emplace([&task] {
    auto* const mine = task;
    task = nullptr;
    delete mine;
  });
  loop.Submit(**task);
  CHECK(loop.RunOnce() == 1);
  CHECK(task == nullptr);
}

// ---- blocking ----

TEST_CASE("a lone caller's work runs and ends on its own thread, call after call") {
  EventLoop loop(InMode(EveryMode()));
  int elsewhere = 0;
  for (int i = 0; i < 2000; ++i) {
    std::thread::id ended_on;
    Call call([&](Call& self) {
      loop.Post([&] {
        ended_on = std::this_thread::get_id();
        self.Finish();
      });
    });
    REQUIRE(loop.RunBlocking(call).ok());
    if (call.ran_on != std::this_thread::get_id() || ended_on != std::this_thread::get_id()) {
      ++elsewhere;
    }
  }
  // When this thread is kept from the CPU for kIdleTakeover the helper takes over, as it should.
  CHECK(elsewhere <= 10);
}

TEST_CASE("after an idle time the caller takes over from the helper, and keeps the loop") {
  EventLoop loop(InMode(EveryMode()));
  const std::thread::id helper = HelperOf(loop);
  CHECK(helper != std::this_thread::get_id());
  for (int round = 0; round < 5; ++round) {
    std::atomic<bool> helper_drives{false};
    asio::post(loop.io(), [&] { helper_drives = true; });  // which wakes nobody
    REQUIRE(Eventually([&] { return helper_drives.load(); }));
    Call call([](Call& self) {
      self.Finish();  // also when everything is over at once the helper must let go
    });
    REQUIRE(loop.RunBlocking(call).ok());
    int own = 0;
    for (int i = 0; i < 20; ++i) {
      Call next([](Call& self) { self.Finish(); });
      REQUIRE(loop.RunBlocking(next).ok());
      own += next.ran_on == std::this_thread::get_id();
    }
    CHECK(own >= 18);
  }
}

TEST_CASE("a blocking call from a callback of its own loop fails at once") {
  EventLoop loop;
  absl::Status status;
  bool inner_ran = false;
  Call outer([&](Call& self) {
    CHECK(loop.IsDriver());
    Call inner([&](Call& that) {
      inner_ran = true;
      that.Finish();
    });
    status = loop.RunBlocking(inner);
    self.Finish();
  });
  CHECK_FALSE(loop.IsDriver());
  REQUIRE(loop.RunBlocking(outer).ok());
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_FALSE(inner_ran);
  CHECK_FALSE(loop.IsDriver());
}

TEST_CASE("a driver may make a blocking call on another loop") {
  EventLoop a;
  EventLoop b;
  absl::Status in_b;
  absl::Status in_a;
  Call outer([&](Call& self) {
    Call inner([&](Call& that) {
      Call back_to_a([](Call& never) { never.Finish(); });
      in_a = a.RunBlocking(back_to_a);
      that.Finish();
    });
    in_b = b.RunBlocking(inner);
    CHECK(a.IsDriver());
    CHECK_FALSE(b.IsDriver());
    self.Finish();
  });
  REQUIRE(a.RunBlocking(outer).ok());
  CHECK(in_b.ok());
  CHECK(in_a.code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a loop without a helper is driven by whoever blocks in it") {
  EventLoop loop(NoHelper());
  int runs = 0;
  loop.Post([&] { ++runs; });
  std::this_thread::sleep_for(3 * EventLoop::kIdleTakeover);
  CHECK(runs == 0);
  asio::steady_timer timer(loop.io(), 1ms);
  Call call(
      [&](Call& self) { timer.async_wait([&self](boost::system::error_code) { self.Finish(); }); });
  REQUIRE(loop.RunBlocking(call).ok());
  CHECK(runs == 1);
  CHECK(call.ran_on == std::this_thread::get_id());
}

TEST_CASE("end-of-turn work is done before the caller leaves") {
  EventLoop loop(InMode(EveryMode()));
  int flushed = 0;
  FunctionTask flush([&] { ++flushed; });
  for (int i = 1; i <= 100; ++i) {
    Call call([&](Call& self) {
      loop.RunAtEndOfTurn(flush);
      self.Finish();
    });
    REQUIRE(loop.RunBlocking(call).ok());
    CHECK(flushed == i);
    asio::steady_timer timer(loop.io(), 0ms);
    Call by_asio([&](Call& self) {
      timer.async_wait([&](boost::system::error_code) {
        loop.RunAtEndOfTurn(flush);
        self.Finish();
      });
    });
    REQUIRE(loop.RunBlocking(by_asio).ok());
    CHECK(flushed == i + 1);
    flushed = i;
  }
}

// ---- who drives when nobody is blocked ----

TEST_CASE("a token that lies free is picked up by the helper") {
  EventLoop loop;
  const std::thread::id helper = HelperOf(loop);
  Call call([](Call& self) { self.Finish(); });
  REQUIRE(loop.RunBlocking(call).ok());
  REQUIRE(loop.RunBlocking(call).ok());
  std::atomic<bool> fired{false};
  std::thread::id fired_on;
  asio::steady_timer timer(loop.io(), 1ms);
  timer.async_wait([&](boost::system::error_code) {
    fired_on = std::this_thread::get_id();
    fired = true;
  });
  REQUIRE(Eventually([&] { return fired.load(); }));
  CHECK(fired_on == helper);
}

TEST_CASE("asynchronous work has the helper drive at once") {
  EventLoop loop(InMode(EveryMode()));
  Call call([](Call& self) { self.Finish(); });
  REQUIRE(loop.RunBlocking(call).ok());
  std::atomic<bool> ran{false};
  asio::post(loop.io(), [&] { ran = true; });  // does not wake by itself
  loop.AddAsyncWork();
  REQUIRE(Eventually([&] { return ran.load(); }));
  // A blocking call gets through beside it, and when it takes long its own thread drives.
  for (int i = 0; i < 50; ++i) REQUIRE(loop.RunBlocking(call).ok());
  asio::steady_timer timer(loop.io());
  std::thread::id ended_on;
  Call slow([&](Call& self) {
    timer.expires_after(20ms);
    timer.async_wait([&](boost::system::error_code) {
      ended_on = std::this_thread::get_id();
      self.Finish();
    });
  });
  REQUIRE(loop.RunBlocking(slow).ok());
  CHECK(ended_on == std::this_thread::get_id());
  loop.RemoveAsyncWork();
}

TEST_CASE("a dedicated loop is driven by its own thread only") {
  EventLoopOptions options = InMode(EveryMode());
  options.dedicated = true;
  EventLoop loop(options);
  const std::thread::id helper = HelperOf(loop);
  for (int i = 0; i < 100; ++i) {
    Call call([](Call& self) { self.Finish(); });
    REQUIRE(loop.RunBlocking(call).ok());
    CHECK(call.ran_on == helper);
  }
  CHECK(loop.RunOnce() == 0);
}

// ---- end of turn ----

TEST_CASE("end-of-turn tasks run once, in order, after all else, with those they add") {
  EventLoop loop(NoHelper());
  std::vector<std::string> order;
  FunctionTask third([&] { order.emplace_back("third"); });
  FunctionTask second([&] { order.emplace_back("second"); });
  FunctionTask first([&] {
    order.emplace_back("first");
    loop.RunAtEndOfTurn(third);
  });
  loop.Post([&] {
    loop.RunAtEndOfTurn(first);
    loop.RunAtEndOfTurn(second);
    loop.RunAtEndOfTurn(first);
    order.emplace_back("work");
  });
  loop.Post([&] { order.emplace_back("more work"); });
  CHECK(loop.RunOnce() == 5);
  CHECK(order == std::vector<std::string>{"work", "more work", "first", "second", "third"});
  CHECK(loop.RunOnce() == 0);
}

TEST_CASE("an end-of-turn task may be cancelled by an owner that goes") {
  EventLoop loop(NoHelper());
  int runs = 0;
  auto doomed = std::make_unique<FunctionTask>([&] { ++runs; });
  FunctionTask killer([&] {
    loop.CancelEndOfTurn(*doomed);
    loop.CancelEndOfTurn(*doomed);
    doomed.reset();
  });
  loop.Post([&] {
    loop.RunAtEndOfTurn(killer);
    loop.RunAtEndOfTurn(*doomed);
  });
  loop.RunOnce();
  CHECK(runs == 0);
  CHECK(doomed == nullptr);
}

TEST_CASE("an end-of-turn task that always comes back does not stop the loop") {
  std::optional<FunctionTask> forever;
  std::atomic<bool> stop{false};
  EventLoop loop(InMode(ProgressMode::kEvent));
  forever.emplace([&] {
    if (!stop) loop.RunAtEndOfTurn(*forever);
  });
  loop.Post([&] { loop.RunAtEndOfTurn(*forever); });
  std::atomic<bool> ran{false};
  loop.Post([&] { ran = true; });
  REQUIRE(Eventually([&] { return ran.load(); }));
  asio::steady_timer timer(loop.io(), 1ms);
  std::atomic<bool> fired{false};
  timer.async_wait([&](boost::system::error_code) { fired = true; });
  CHECK(Eventually([&] { return fired.load(); }));
  stop = true;
}

// ---- pollers ----

class FunctionPoller final : public Poller {
 public:
  explicit FunctionPoller(
      std::function<size_t()> poll, std::function<bool()> arm = [] { return true; })
      : poll_(std::move(poll)), arm_(std::move(arm)) {}
  size_t Poll() override { return poll_(); }
  bool Arm() override { return arm_(); }

 private:
  std::function<size_t()> poll_;
  std::function<bool()> arm_;
};

TEST_CASE("pollers are looked at every turn, and may come and go inside Poll") {
  EventLoop loop(NoHelper());
  std::array<int, 3> polls{};
  std::optional<FunctionPoller> first;
  std::optional<FunctionPoller> second;
  FunctionPoller third([&] { return ++polls[2] == 1 ? 7 : 0; });
  second.emplace([&] {
    ++polls[1];
    return 0;
  });
  first.emplace([&] {
    ++polls[0];
    loop.RemovePoller(*second);  // one that has not been looked at in this turn
    second.reset();
    loop.AddPoller(third);
    loop.RemovePoller(*first);
    return 1;
  });
  loop.Post([&] {
    loop.AddPoller(*first);
    loop.AddPoller(*second);
  });
  CHECK(loop.RunOnce() == 1 + 1 + 7);
  CHECK(loop.RunOnce() == 0);
  CHECK(polls == std::array<int, 3>{1, 0, 2});
  loop.Post([&] { loop.RemovePoller(third); });
  loop.RunOnce();
  loop.RunOnce();
  CHECK(polls[2] == 2);
}

TEST_CASE(
    "the loop does not sleep while a poller refuses to be armed, and sockets get their turn") {
  std::atomic<int> polls{0};
  FunctionPoller poller(
      [&] {
        ++polls;
        return 0;
      },
      [&] { return polls >= 100'000; });
  EventLoop loop(InMode(ProgressMode::kEvent));
  loop.Post([&] { loop.AddPoller(poller); });
  REQUIRE(Eventually([&] { return polls > 0; }));
  asio::steady_timer timer(loop.io(), 0ms);
  std::atomic<bool> fired{false};
  timer.async_wait([&](boost::system::error_code) { fired = true; });
  CHECK(Eventually([&] { return fired.load(); }));
  CHECK(Eventually([&] { return polls >= 100'000; }));
  std::this_thread::sleep_for(20ms);
  const int asleep = polls;
  std::this_thread::sleep_for(50ms);
  CHECK(polls == asleep);
  loop.Post([&] { loop.RemovePoller(poller); });
}

TEST_CASE("an armed poller is woken through io()") {
  EventLoop loop(InMode(EveryMode()));
  const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  asio::posix::stream_descriptor wake(loop.io(), event);
  std::atomic<int> to_do{0};
  int done = 0;
  bool armed = false;
  Call* waiting = nullptr;
  FunctionPoller poller(
      [&]() -> size_t {
        if (to_do == 0 || waiting == nullptr) return 0;
        --to_do;
        ++done;
        std::exchange(waiting, nullptr)->Finish();
        return 1;
      },
      [&] {
        if (!armed) {
          armed = true;
          wake.async_wait(asio::posix::stream_descriptor::wait_read,
                          [&](boost::system::error_code error) {
                            uint64_t count = 0;
                            if (!error) (void)!::read(event, &count, sizeof(count));
                            armed = false;
                          });
        }
        return to_do == 0 || waiting == nullptr;
      });
  for (int i = 1; i <= 50; ++i) {
    Call call([&](Call& self) {
      waiting = &self;
      if (i == 1) loop.AddPoller(poller);
    });
    std::thread peer([&] {
      std::this_thread::sleep_for(i % 3 * 1ms);
      ++to_do;
      const uint64_t one = 1;
      (void)!::write(event, &one, sizeof(one));
    });
    REQUIRE(loop.RunBlocking(call).ok());
    peer.join();
    CHECK(done == i);
  }
  Call end([&](Call& self) {
    loop.RemovePoller(poller);
    self.Finish();
  });
  REQUIRE(loop.RunBlocking(end).ok());
}

// ---- time ----

class FunctionTimer final : public Timer {
 public:
  explicit FunctionTimer(std::function<void()> on_timer) : on_timer_(std::move(on_timer)) {}
  void OnTimer() override { on_timer_(); }

 private:
  std::function<void()> on_timer_;
};

TEST_CASE("stepping with a manual clock is exact") {
  ManualClock clock;
  EventLoop loop(NoHelper(&clock));
  const TimePoint start = clock.Now();
  std::vector<Duration> fired;
  FunctionTimer timer([&] {
    fired.push_back(loop.now() - start);
    loop.timers().Arm(timer, loop.now() + 10s);
  });
  loop.Post([&] { loop.timers().Arm(timer, start + 10s); });
  CHECK(loop.RunOnce() == 1);
  for (int second = 1; second <= 35; ++second) {
    clock.Advance(1s);
    CHECK(loop.RunOnce() == (second % 10 == 0 ? 1 : 0));
  }
  CHECK(fired == std::vector<Duration>{10s, 20s, 30s});
  loop.Post([&] { timer.Disarm(); });
  loop.RunOnce();
}

TEST_CASE("now() stands still in a turn and is fresh in the next, also after a sleep") {
  ManualClock clock;
  EventLoop loop(NoHelper(&clock));
  TimePoint before;
  TimePoint after;
  loop.Post([&] {
    before = loop.now();
    clock.Advance(1s);
    after = loop.now();
  });
  loop.RunOnce();
  CHECK(before == after);
  loop.Post([&] { after = loop.now(); });
  loop.RunOnce();
  CHECK(after == before + 1s);

  EventLoop real(InMode(ProgressMode::kEvent));
  const TimePoint slept_from = Clock::Steady().Now();
  TimePoint woken;
  asio::steady_timer timer(real.io(), 30ms);
  FunctionPoller asks_in_every_turn([&] { return real.now() == TimePoint{} ? 1 : 0; });
  Call call([&](Call& self) {
    real.AddPoller(asks_in_every_turn);
    timer.async_wait([&](boost::system::error_code) {
      woken = real.now();
      real.RemovePoller(asks_in_every_turn);
      self.Finish();
    });
  });
  REQUIRE(real.RunBlocking(call).ok());
  CHECK(woken >= slept_from + 30ms);
}

TEST_CASE("timers of the wheel fire on time in every mode, caller or helper") {
  EventLoop loop(InMode(EveryMode()));
  const bool by_caller = GENERATE(true, false);
  for (int i = 0; i < 10; ++i) {
    const TimePoint deadline = Clock::Steady().Now() + i * 3ms;
    std::atomic<TimePoint> fired{TimePoint{}};
    std::atomic<bool> done{false};
    Call* waiting = nullptr;
    FunctionTimer timer([&] {
      fired = Clock::Steady().Now();
      if (waiting != nullptr) waiting->Finish();
      done = true;
    });
    if (by_caller) {
      Call call([&](Call& self) {
        waiting = &self;
        loop.timers().Arm(timer, deadline);
      });
      REQUIRE(loop.RunBlocking(call).ok());
    } else {
      loop.Post([&] { loop.timers().Arm(timer, deadline); });
      REQUIRE(Eventually([&] { return done.load(); }));
    }
    CHECK(fired.load() >= deadline);
    CHECK(fired.load() < deadline + 500ms);  // a loaded machine, not a lost wake-up
  }
}

TEST_CASE("a loop that was held up looks at its sockets before its timers") {
  EventLoop loop(InMode(EveryMode()));
  const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  asio::posix::stream_descriptor socket(loop.io(), event);
  std::string order;
  std::atomic<bool> done{false};
  FunctionTimer timer([&] {
    order += "timer";
    done = true;
  });
  loop.Post([&] {
    socket.async_wait(asio::posix::stream_descriptor::wait_read,
                      [&](boost::system::error_code) { order += "socket "; });
    loop.timers().Arm(timer, loop.now() + 150ms);
  });
  asio::steady_timer stop(loop.io(), 50ms);
  stop.async_wait(
      [&](boost::system::error_code) {  // as a process is stopped, while its peer writes
        std::this_thread::sleep_for(400ms);
        const uint64_t one = 1;
        (void)!::write(event, &one, sizeof(one));
      });
  REQUIRE(Eventually([&] { return done.load(); }));
  CHECK(order == "socket timer");
}

TEST_CASE("io().stop() does not stop the loop") {
  EventLoop loop(InMode(ProgressMode::kEvent));
  loop.io().stop();
  std::atomic<int> ran{0};
  for (int i = 0; i < 10; ++i) {
    loop.Post([&] { ++ran; });
    std::this_thread::sleep_for(1ms);
  }
  CHECK(Eventually([&] { return ran == 10; }));
}

TEST_CASE("RunOnce counts what it did, io() included") {
  EventLoop loop(NoHelper());
  CHECK(loop.RunOnce() == 0);
  for (int i = 0; i < 5; ++i) asio::post(loop.io(), [] {});
  CHECK(loop.RunOnce() == 5);
  CHECK(loop.RunOnce() == 0);
}

}  // namespace
}  // namespace farcall
