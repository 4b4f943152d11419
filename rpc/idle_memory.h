// IdleMemory: gives the memory of large payloads that nobody uses any more back to the system.

#ifndef FARCALL_RPC_IDLE_MEMORY_H_
#define FARCALL_RPC_IDLE_MEMORY_H_

#include <memory>
#include <vector>

#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/timer_wheel.h"

namespace farcall {

// Belongs to one loop: its driver only. Several loops may watch one pool.
class IdleMemory final : private Timer {
 public:
  IdleMemory() = default;
  // Gives back what is free at once: nobody may be left who would do it later.
  ~IdleMemory() override;

  // A large payload goes through `pool`: looks after it, with a timer of `loop`, until it has no
  // large slots left. Costs next to nothing when it is looked after already.
  void Watch(EventLoop& loop, const std::shared_ptr<BufferPool>& pool);

 private:
  static constexpr Duration kPeriod = BufferPool::kIdleTime / 2;

  void OnTimer() override;

  EventLoop* loop_ = nullptr;
  std::vector<std::weak_ptr<BufferPool>> pools_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_IDLE_MEMORY_H_
