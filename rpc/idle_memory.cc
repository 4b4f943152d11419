#include "farcall/rpc/idle_memory.h"

#include <algorithm>

#include "farcall/rpc/clock.h"

namespace farcall {

void IdleMemory::Watch(EventLoop& loop, const std::shared_ptr<BufferPool>& pool) {
  const bool known = std::any_of(pools_.begin(), pools_.end(), [&](const auto& watched) {
    return !watched.owner_before(pool) && !pool.owner_before(watched);
  });
  if (known) return;
  loop_ = &loop;
  pools_.push_back(pool);
  if (!armed()) loop.timers().Arm(*this, After(loop.now(), kPeriod));
}

IdleMemory::~IdleMemory() {
  const TimePoint now = Clock::Steady().Now();
  for (const std::weak_ptr<BufferPool>& watched : pools_) {
    const std::shared_ptr<BufferPool> pool = watched.lock();
    if (pool == nullptr) continue;
    pool->GiveBackIdle(now);
    pool->GiveBackIdle(After(now, BufferPool::kIdleTime));
  }
}

void IdleMemory::OnTimer() {
  std::erase_if(pools_, [this](const std::weak_ptr<BufferPool>& watched) {
    const std::shared_ptr<BufferPool> pool = watched.lock();
    return pool == nullptr || !pool->GiveBackIdle(loop_->now());
  });
  if (!pools_.empty()) loop_->timers().Arm(*this, After(loop_->now(), kPeriod));
}

}  // namespace farcall
