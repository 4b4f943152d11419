// How a loop ends: from outside, and from inside each kind of callback.

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/loop_executor.h"
#include "farcall/tests/rpc/loop_testing.h"

namespace farcall {
namespace {

TEST_CASE("an idle loop ends, asleep or not, in every mode") {
  const ProgressMode mode =
      GENERATE(ProgressMode::kEvent, ProgressMode::kBusy, ProgressMode::kAdaptive);
  EventLoopOptions options = InMode(mode);
  options.dedicated = GENERATE(false, true);
  for (const auto wait : {0ms, 1ms, 20ms}) {
    EventLoop loop(options);
    std::this_thread::sleep_for(wait);
  }
}

TEST_CASE("what was submitted before the end runs") {
  EventLoopOptions options;
  options.helper_thread = GENERATE(true, false);
  int ran = 0;
  bool nested = false;
  {
    EventLoop loop(options);
    for (int i = 0; i < 1000; ++i) {
      loop.Post([&] {
        ++ran;
        if (ran == 1000) {
          loop.Post([&] {
            nested = true;
            CHECK(loop.IsDriver());
          });
        }
      });
    }
  }
  CHECK(ran == 1000);
  CHECK(nested);
}

TEST_CASE("a task that submits itself for ever does not hold up the end") {
  int runs = 0;
  std::optional<FunctionTask> forever;
  {
    EventLoop loop;
    forever.emplace([&] {
      ++runs;
      loop.Submit(*forever);
    });
    loop.Submit(*forever);
  }
  CHECK(runs > 0);
}

// Counts how often a coroutine frame or handler that owns it is destroyed.
struct Guard {
  explicit Guard(std::atomic<int>& counter) : count(&counter) {}
  Guard(Guard&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
  Guard& operator=(Guard&&) = delete;
  ~Guard() {
    if (count != nullptr) ++*count;
  }
  std::atomic<int>* count;
};

asio::awaitable<void> SleepForever(std::atomic<int>& destroyed, std::atomic<bool>& suspended) {
  const Guard guard(destroyed);
  asio::steady_timer timer(co_await asio::this_coro::executor, 1h);
  suspended = true;
  co_await timer.async_wait(asio::use_awaitable);
  FAIL("the timer cannot have fired");
}

TEST_CASE("pending handlers and coroutines are destroyed with the loop") {
  std::atomic<int> destroyed{0};
  std::atomic<bool> suspended{false};
  {
    EventLoop loop;
    asio::co_spawn(loop.executor(), SleepForever(destroyed, suspended), asio::detached);
    asio::co_spawn(loop.executor(), SleepForever(destroyed, suspended), asio::detached);
    REQUIRE(Eventually([&] { return suspended.load(); }));
  }
  CHECK(destroyed == 2);
}

TEST_CASE("a handler that queues work from its destructor, when the loop dies, is harmless") {
  std::atomic<int> destroyed{0};
  struct Poster {
    Poster(LoopExecutor target, std::atomic<int>& counter) : executor(target), guard(counter) {}
    Poster(Poster&&) = default;
    Poster& operator=(Poster&&) = delete;
    ~Poster() {
      if (guard.count != nullptr) {
        asio::post(executor, [inner = std::make_shared<Guard>(*guard.count)] {});
      }
    }
    LoopExecutor executor;
    Guard guard;
  };
  {
    EventLoop loop(NoHelper());
    asio::steady_timer timer(loop.io(), 1h);
    timer.async_wait([poster = Poster(loop.executor(), destroyed)](boost::system::error_code) {});
    // The timer dies first and hands its handler to the io_context, where it waits to be run.
  }
  CHECK(destroyed == 2);
}

class DestroyTimer final : public Timer {
 public:
  explicit DestroyTimer(std::function<void()> run) : run_(std::move(run)) {}
  void OnTimer() override { run_(); }

 private:
  std::function<void()> run_;
};

class DestroyPoller final : public Poller {
 public:
  explicit DestroyPoller(std::function<void()> run) : run_(std::move(run)) {}
  size_t Poll() override {
    run_();
    return 1;
  }
  bool Arm() override { return false; }

 private:
  std::function<void()> run_;
};

// Everything that may be under way when the last owner goes from a callback.
struct Scene {
  explicit Scene(const EventLoopOptions& options)
      : loop(std::make_unique<EventLoop>(options)),
        end_of_turn([this] { Destroy(); }),
        pending([this] { pending_ran = true; }),
        innocent([] { FAIL("a timer fired in a loop that is gone"); }),
        timer([this] { Destroy(); }),
        poller([this] { Destroy(); }) {}

  void Destroy() {
    loop->timers().Arm(innocent, loop->now());
    loop->Submit(pending);
    loop.reset();
    clean = pending_ran && !innocent.armed();  // no assertions here: Catch knows one thread only
    gone = true;
  }

  std::unique_ptr<EventLoop> loop;
  bool pending_ran = false;
  std::atomic<bool> clean{false};
  std::atomic<bool> gone{false};
  FunctionTask end_of_turn;
  FunctionTask pending;
  DestroyTimer innocent;
  DestroyTimer timer;
  DestroyPoller poller;
};

TEST_CASE("the last owner may go inside any callback on the helper") {
  const ProgressMode mode =
      GENERATE(ProgressMode::kEvent, ProgressMode::kBusy, ProgressMode::kAdaptive);
  EventLoopOptions options = InMode(mode);
  options.dedicated = GENERATE(false, true);
  Scene scene(options);
  EventLoop& loop = *scene.loop;
  SECTION("a posted task") {
    loop.Post([&] { scene.Destroy(); });
  }
  SECTION("a handler of the executor, with more behind it") {
    loop.Post([&] {
      asio::post(scene.loop->executor(), [&] { scene.Destroy(); });
      asio::post(scene.loop->executor(), [] {});
    });
  }
  SECTION("a handler of Asio, with more behind it") {
    loop.Post([&] {
      asio::post(scene.loop->io(), [&] { scene.Destroy(); });
      asio::post(scene.loop->io(), [] { FAIL("a handler ran in a loop that is gone"); });
    });
  }
  SECTION("a timer") {
    loop.Post([&] { scene.loop->timers().Arm(scene.timer, scene.loop->now()); });
  }
  SECTION("the end of the turn") {
    loop.Post([&] { scene.loop->RunAtEndOfTurn(scene.end_of_turn); });
  }
  SECTION("a poller") {
    loop.Post([&] { scene.loop->AddPoller(scene.poller); });
  }
  SECTION("a coroutine") {
    asio::co_spawn(
        loop.executor(),
        [&]() -> asio::awaitable<void> {
          asio::steady_timer timer(co_await asio::this_coro::executor, 1ms);
          co_await timer.async_wait(asio::use_awaitable);
          scene.Destroy();
        },
        asio::detached);
  }
  REQUIRE(Eventually([&] { return scene.gone.load(); }));
  CHECK(scene.clean);
}

TEST_CASE("the last owner may go inside RunOnce") {
  Scene scene(NoHelper());
  EventLoop& loop = *scene.loop;
  loop.Post([&] { scene.Destroy(); });
  loop.RunOnce();
  CHECK(scene.gone);
  CHECK(scene.clean);
}

TEST_CASE("loops may be destroyed from another loop's callback") {
  EventLoop outer;
  auto inner = std::make_unique<EventLoop>();
  int ran = 0;
  inner->Post([&] { ++ran; });
  Call call([&](Call& self) {
    inner.reset();
    self.Finish();
  });
  REQUIRE(outer.RunBlocking(call).ok());
  CHECK(ran == 1);
}

}  // namespace
}  // namespace farcall
