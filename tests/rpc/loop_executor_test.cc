#include "farcall/rpc/loop_executor.h"

#include <array>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/defer.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "farcall/rpc/event_loop.h"
#include "farcall/tests/rpc/heap_count.h"
#include "farcall/tests/rpc/loop_testing.h"

namespace farcall {
namespace {

namespace execution = asio::execution;

static_assert(execution::is_executor_v<LoopExecutor>);
static_assert(asio::can_require_v<LoopExecutor, execution::blocking_t::never_t>);
static_assert(asio::can_require_v<LoopExecutor, execution::blocking_t::possibly_t>);
static_assert(!asio::can_require_v<LoopExecutor, execution::blocking_t::always_t>);
static_assert(asio::can_prefer_v<LoopExecutor, execution::outstanding_work_t::tracked_t>);
static_assert(asio::can_prefer_v<LoopExecutor, execution::relationship_t::fork_t>);
static_assert(std::is_nothrow_copy_constructible_v<LoopExecutor>);

TEST_CASE("properties answer for the loop") {
  EventLoop loop(NoHelper());
  EventLoop other(NoHelper());
  const LoopExecutor executor = loop.executor();
  CHECK(&asio::query(executor, execution::context) == &loop.io());
  CHECK(asio::query(executor, execution::blocking) == execution::blocking.possibly);
  const LoopExecutor never = asio::require(executor, execution::blocking.never);
  CHECK(asio::query(never, execution::blocking) == execution::blocking.never);
  CHECK(executor == loop.executor());
  CHECK(executor != other.executor());
  CHECK(executor != never);
  CHECK(asio::require(never, execution::blocking.possibly) == executor);

  const asio::any_io_executor any = loop.executor();
  CHECK(&asio::query(any, execution::context) == &loop.io());
  CHECK(any == asio::any_io_executor(executor));
  CHECK(any != asio::any_io_executor(other.executor()));
}

TEST_CASE("dispatch runs inline on the driver; post and defer never do") {
  EventLoop loop(NoHelper());
  const bool erased = GENERATE(false, true);
  std::string order;
  const auto go = [&](const auto& executor) {
    asio::dispatch(executor, [&] { order += "d"; });
    CHECK(order.empty());  // not a driver here
    asio::post(executor, [&, executor] {
      asio::post(executor, [&] { order += "p"; });
      asio::defer(executor, [&] { order += "f"; });
      asio::dispatch(executor, [&] { order += "i"; });
      order += ".";
    });
  };
  if (erased) {
    go(asio::any_io_executor(loop.executor()));
  } else {
    go(loop.executor());
  }
  CHECK(loop.RunOnce() == 2);
  CHECK(order == "di.");
  CHECK(loop.RunOnce() == 2);
  CHECK(order == "di.pf");
}

TEST_CASE("handlers queue in order with posted tasks") {
  EventLoop loop(NoHelper());
  std::string order;
  loop.Post([&] { order += "1"; });
  asio::post(loop.executor(), [&] { order += "2"; });
  loop.Post([&] { order += "3"; });
  loop.RunOnce();
  CHECK(order == "123");
}

TEST_CASE("handlers of any size, and ones that only move") {
  EventLoop loop(NoHelper());
  int sum = 0;
  asio::post(loop.executor(), [&sum, number = std::make_unique<int>(1)] { sum += *number; });
  const std::array<char, 1000> large{7};  // beyond what is recycled
  asio::post(loop.executor(), [&sum, large] { sum += large[0]; });
  loop.RunOnce();
  CHECK(sum == 8);
}

TEST_CASE("a handler that was never run is destroyed with its loop, or run by it") {
  auto token = std::make_shared<int>(0);
  {
    EventLoop loop(NoHelper());
    asio::post(loop.executor(), [token] { ++*token; });
  }
  CHECK(*token == 1);
  CHECK(token.use_count() == 1);
}

asio::awaitable<int> Add(int a, int b) {
  co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
  co_return a + b;
}

asio::awaitable<void> Compute(EventLoop& loop, std::atomic<int>& result) {
  int sum = 0;
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (int i = 0; i < 10; ++i) {
    sum = co_await Add(sum, i);
    timer.expires_after(1ms);
    co_await timer.async_wait(asio::use_awaitable);
    if (!loop.IsDriver()) co_return;
  }
  result = sum;
}

TEST_CASE("coroutines and timers run on the loop, helper or caller") {
  EventLoop loop(
      InMode(GENERATE(ProgressMode::kEvent, ProgressMode::kBusy, ProgressMode::kAdaptive)));
  std::atomic<int> result{0};
  asio::co_spawn(loop.executor(), Compute(loop, result), asio::detached);
  if (GENERATE(true, false)) {
    asio::steady_timer timer(loop.executor(), 10ms);
    Call call([&](Call& self) {
      timer.async_wait([&self](boost::system::error_code) { self.Finish(); });
    });
    REQUIRE(loop.RunBlocking(call).ok());
  }
  CHECK(Eventually([&] { return result == 45; }));
}

TEST_CASE("co_spawn gives a future its value; strands and bound executors work on top") {
  EventLoop loop;
  std::future<int> sum = asio::co_spawn(loop.executor(), Add(20, 22), asio::use_future);
  REQUIRE(sum.wait_for(20s) == std::future_status::ready);
  CHECK(sum.get() == 42);

  auto strand = asio::make_strand(loop.executor());
  std::atomic<int> count{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) asio::post(strand, [&] { ++count; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(Eventually([&] { return count == 4000; }));

  asio::steady_timer timer(loop.io(), 1ms);
  std::atomic<bool> on_driver{false};
  timer.async_wait(asio::bind_executor(
      loop.executor(), [&](boost::system::error_code) { on_driver = loop.IsDriver(); }));
  CHECK(Eventually([&] { return on_driver.load(); }));
}

TEST_CASE("handlers posted by four threads all run") {
  EventLoop loop(InMode(ProgressMode::kEvent));
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) asio::post(loop.executor(), [&] { ++ran; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(Eventually([&] { return ran == 40'000; }));
}

TEST_CASE("queued handlers allocate nothing in steady state") {
  EventLoop loop(NoHelper());
  const LoopExecutor executor = loop.executor();
  uint64_t ran = 0;
  const std::array<char, 200> some{};
  const auto round = [&] {
    for (int i = 0; i < 10; ++i) {
      asio::post(executor, [&ran] { ++ran; });
      asio::defer(executor, [&ran, some] { ran += 1 + static_cast<uint64_t>(some[0]); });
    }
    loop.RunOnce();
  };
  round();
  const uint64_t heap = HeapAllocations();
  for (int i = 0; i < 1000; ++i) round();
  CHECK(HeapAllocations() == heap);
  CHECK(ran == 20 * 1001);
}

}  // namespace
}  // namespace farcall
