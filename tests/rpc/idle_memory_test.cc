#include "farcall/rpc/idle_memory.h"

#include <catch2/catch.hpp>
#include <memory>

#include "farcall/rpc/clock.h"

namespace farcall {
namespace {

using std::chrono::seconds;

constexpr size_t kLarge = size_t{1} << 20;

TEST_CASE("idle memory goes back within one and a half times its time, then the loop sleeps") {
  ManualClock clock;
  EventLoop loop({.clock = &clock, .helper_thread = false});
  auto pool = std::make_shared<BufferPool>();
  auto gone = std::make_shared<BufferPool>();
  IdleMemory idle;
  Buffer held;
  loop.Post([&] {
    held = *pool->Allocate(kLarge);
    for (int i = 0; i < 3; ++i) {
      idle.Watch(loop, pool);
      idle.Watch(loop, gone);
    }
    CHECK(loop.timers().size() == 1);
  });
  loop.RunOnce();
  gone.reset();
  clock.Advance(seconds(60));  // held all the while
  loop.RunOnce();
  held.Reset();
  CHECK(pool->stats().cached_bytes == kLarge);
  for (int second = 0; second < 9; ++second) {
    clock.Advance(seconds(1));
    loop.RunOnce();
  }
  CHECK(pool->stats().cached_bytes == kLarge);
  for (int second = 0; second < 6; ++second) {
    clock.Advance(seconds(1));
    loop.RunOnce();
  }
  CHECK(pool->stats().cached_bytes == 0);
  loop.Post([&] { CHECK(loop.timers().size() == 0); });
  loop.RunOnce();
}

TEST_CASE("what is free goes back when its keeper goes, be it after the loop") {
  auto pool = std::make_shared<BufferPool>();
  {
    IdleMemory idle;
    EventLoop loop({.helper_thread = false});
    loop.Post([&] {
      const Buffer used = *pool->Allocate(kLarge);
      idle.Watch(loop, pool);
    });
    loop.RunOnce();
    CHECK(pool->stats().cached_bytes == kLarge);
  }
  CHECK(pool->stats().cached_bytes == 0);
}

}  // namespace
}  // namespace farcall
