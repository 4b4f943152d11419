// Many threads on one loop: nothing is lost, nothing is late, nobody is left waiting.

#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <vector>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/loop_executor.h"
#include "farcall/tests/rpc/loop_testing.h"

namespace farcall {
namespace {

ProgressMode EveryMode() {
  return GENERATE(ProgressMode::kEvent, ProgressMode::kBusy, ProgressMode::kAdaptive);
}

asio::awaitable<void> Tick(std::atomic<int>& left) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (int i = 0; i < 20; ++i) {
    timer.expires_after(1ms);
    co_await timer.async_wait(asio::use_awaitable);
  }
  --left;
}

// Each call ends in its own way: at once, by a later task, by a timer of Asio, by another thread.
void MakeCalls(EventLoop& loop, uint64_t seed, int calls, std::atomic<int>& ended) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < calls; ++i) {
    const uint64_t kind = random() % 16;
    asio::steady_timer timer(loop.io());
    std::thread other;
    Call call([&](Call& self) {
      if (kind == 0) {
        timer.expires_after(std::chrono::microseconds(random() % 300));
        timer.async_wait([&self](boost::system::error_code) { self.Finish(); });
      } else if (kind == 1) {
        other = std::thread([&] { loop.Post([&self] { self.Finish(); }); });
      } else if (kind < 8) {
        loop.Post([&self] { self.Finish(); });
      } else {
        self.Finish();
      }
    });
    if (loop.RunBlocking(call).ok()) ++ended;
    if (other.joinable()) other.join();
  }
}

TEST_CASE("eight threads block on one loop beside coroutines and posts") {
  EventLoop loop(InMode(EveryMode()));
  constexpr int kThreads = 8;
  constexpr int kCalls = 500;
  std::atomic<int> coroutines{10};
  std::atomic<int> ended{0};
  std::atomic<int> posted{0};
  for (int i = 0; i < 10; ++i) {
    asio::co_spawn(loop.executor(), Tick(coroutines), asio::detached);
  }
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= kThreads; ++seed) {
    threads.emplace_back([&, seed] { MakeCalls(loop, seed, kCalls, ended); });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 2000; ++i) {
      loop.AddAsyncWork();
      loop.Post([&] {
        ++posted;
        loop.RemoveAsyncWork();
      });
      if (i % 50 == 0) std::this_thread::sleep_for(100us);
    }
  });
  for (std::thread& thread : threads) thread.join();
  CHECK(ended == kThreads * kCalls);
  CHECK(Eventually([&] { return posted == 2000; }));
  CHECK(Eventually([&] { return coroutines == 0; }));
}

// Ping-pong with a loop that falls asleep in between: a lost wake-up stops it for good.
TEST_CASE("100,000 submissions from another thread each wake the loop") {
  EventLoopOptions options = InMode(ProgressMode::kEvent);
  options.dedicated = GENERATE(true, false);
  EventLoop loop(options);
  loop.AddAsyncWork();
  std::atomic<int> ran{0};
  FunctionTask task([&] { ran.fetch_add(1); });
  std::mt19937_64 random(7);
  bool lost = false;
  for (int i = 1; i <= 100'000 && !lost; ++i) {
    loop.Submit(task);
    for (uint64_t spins = 0; ran.load() != i && !lost; ++spins) {
      if (spins % 64 == 63) std::this_thread::yield();
      if (spins > 2'000'000) lost = !Eventually([&] { return ran == i; });
    }
    for (uint64_t pause = random() % 64; pause > 0; --pause) {
      (void)ran.load();  // hits the moments around falling asleep
    }
  }
  CHECK_FALSE(lost);
  loop.RemoveAsyncWork();
}

TEST_CASE("submissions of many threads all run, each thread's in its order") {
  EventLoop loop(InMode(EveryMode()));
  constexpr int kThreads = 4;
  constexpr int kPosts = 25'000;
  std::array<int, kThreads> next{};
  std::atomic<int> total{0};
  bool in_order = true;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < kPosts; ++i) {
        loop.Post([&, t, i] {
          in_order &= next[t]++ == i;
          ++total;
        });
        if (random() % 256 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(Eventually([&] { return total == kThreads * kPosts; }));
  CHECK(in_order);
}

TEST_CASE("a task submitted again and again by many threads sees what each wrote before") {
  EventLoop loop(InMode(ProgressMode::kEvent));
  std::array<std::atomic<int>, 4> written{};
  std::array<int, 4> seen{};
  FunctionTask task([&] {
    for (size_t t = 0; t < 4; ++t) seen[t] = written[t].load(std::memory_order_relaxed);
  });
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 20'000; ++i) {
        written[t].store(i, std::memory_order_relaxed);
        loop.Submit(task);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(Eventually([&] {
    Call read([](Call& self) { self.Finish(); });
    return loop.RunBlocking(read).ok() &&
           seen == std::array<int, 4>{20'000, 20'000, 20'000, 20'000};
  }));
}

TEST_CASE("callers come and go around an idle helper") {
  EventLoop loop(InMode(EveryMode()));
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        // About kIdleTakeover: the helper is just taking over, or just has.
        std::this_thread::sleep_for(EventLoop::kIdleTakeover + (i * 7 + t * 3) % 20 * 100us - 1ms);
        Call call([&](Call& self) { loop.Post([&self] { self.Finish(); }); });
        if (loop.RunBlocking(call).ok()) ++ended;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ended == 90);
}

TEST_CASE("callers of a loop without a helper hand the token on") {
  EventLoop loop(NoHelper());
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    threads.emplace_back([&, seed] { MakeCalls(loop, seed, 500, ended); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ended == 3000);
}

TEST_CASE("loops are made and destroyed while others post and call") {
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> ran{0};
    {
      EventLoop loop(InMode(ProgressMode::kAdaptive));
      std::thread poster([&] {
        for (int i = 0; i < 20; ++i) loop.Post([&] { ++ran; });
      });
      std::thread caller([&] {
        Call call([](Call& self) { self.Finish(); });
        if (loop.RunBlocking(call).ok()) ++ran;
      });
      poster.join();
      caller.join();
    }
    CHECK(ran == 21);
  }
}

}  // namespace
}  // namespace farcall
