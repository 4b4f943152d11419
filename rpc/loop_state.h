// What stands behind an EventLoop: the driver token, the queue of submissions, and what the driver
// owns. Private to event_loop.cc (the token), loop_turn.cc (a turn), loop_helper.cc (the helper
// thread) and loop_executor.cc.

#ifndef FARCALL_RPC_LOOP_STATE_H_
#define FARCALL_RPC_LOOP_STATE_H_

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "farcall/rpc/coroutine_memory.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/mutex.h"

namespace farcall {

// Intrusive FIFO of tasks.
struct LoopTaskQueue {
  LoopTask* first = nullptr;
  LoopTask* last = nullptr;
};

// Blocks for executor tasks, kept for the next one: a queued handler costs no heap allocation in
// steady state. Thread-safe.
class TaskMemory {
 public:
  TaskMemory() = default;
  ~TaskMemory();
  TaskMemory(const TaskMemory&) = delete;
  TaskMemory& operator=(const TaskMemory&) = delete;

  void* Allocate(size_t bytes);
  void Free(void* block, size_t bytes);

 private:
  static constexpr std::array<size_t, 5> kSizes = {64, 128, 256, 512, 1024};
  static constexpr size_t kKept = 256;  // blocks of a size: bounds what a burst leaves behind

  struct Block {
    Block* next;
  };
  SpinMutex mutex_;
  std::array<Block*, kSizes.size()> free_ ABSL_GUARDED_BY(mutex_){};
  std::array<size_t, kSizes.size()> kept_ ABSL_GUARDED_BY(mutex_){};
};

// An io_context that can be shut down before it is destroyed: see ~LoopState.
class LoopContext final : public asio::io_context {
 public:
  using asio::io_context::io_context;
  // Destroys all pending handlers; sockets and timers may still be destroyed afterwards. May be
  // called again, for handlers that came since.
  void Shutdown() { shutdown(); }
};

struct LoopState : std::enable_shared_from_this<LoopState> {
  explicit LoopState(EventLoopOptions options);
  ~LoopState();
  LoopState(const LoopState&) = delete;
  LoopState& operator=(const LoopState&) = delete;

  // ---- any thread (event_loop.cc) ----
  bool DrivenByThisThread() const;
  // Asio, for anybody but pollers.
  asio::io_context& UseAsio() {
    if (!asio_used.load(std::memory_order_relaxed)) asio_used.store(true);
    return *io;
  }
  void Submit(LoopTask& task);
  void Add(std::atomic<int64_t>& work);  // to async_work or upkeep
  bool WantsDriver() const { return async_work.load() > 0 || upkeep.load() > 0; }
  // A sleeping driver that is not this thread: it must be woken to notice what was changed before.
  bool DriverSleepsElsewhere() const;
  // Makes a sleeping driver look again; at most one wake-up is on its way at a time.
  void WakeDriver();

  // ---- the token (event_loop.cc) ----
  // True: this thread drives now, for `task` (nullptr: for nobody in particular).
  bool TryTake(BlockingTask* task);
  // kTaken: drive; the task is not queued. kGranted: drive; the task is queued or has run.
  // kFinished: another driver did it all.
  enum class Turnout { kTaken, kGranted, kFinished };
  Turnout TakeOrWait(BlockingTask& task);
  void Release();
  void Finished(BlockingTask& task);
  // Runs what is left when the loop goes; on the driver.
  void RunLeftovers();

  // ---- driver only (loop_turn.cc) ----
  // Runs `task` (`start`: it is not queued) and drives until it is finished.
  void DriveFor(BlockingTask& task, bool start) noexcept;
  // Turns until `task` is finished or, for the helper (nullptr), until it should leave.
  void Drive(const BlockingTask* task) noexcept;
  enum class Timers {
    kSkip,
    kByTick,  // when the wheel asks for it: neighbours fire together, up to a tick late
    kExact,   // every deadline that has passed: for stepping
  };
  // Everything but sleeping. Runs at most `asio_limit` handlers of Asio (0: does not look).
  size_t Turn(Timers timers_to_fire, size_t asio_limit);
  size_t RunSubmissions();
  size_t RunEndOfTurn();
  void AddToEndOfTurn(LoopTask& task);
  void CancelEndOfTurn(LoopTask& task);
  void RemovePoller(Poller& poller);
  TimePoint Now();

  // ---- helper (loop_helper.cc) ----
  void StartHelper(std::shared_ptr<LoopState> self);
  void WakeHelper();

  // Constant after construction.
  const EventLoopOptions options;
  Clock& clock;
  const Duration spin;  // of kAdaptive; 0: as kEvent
  const bool has_helper;
  int helper_event = -1;  // eventfd: the helper is parked in poll() on it
  std::thread helper;

  // The token. `driven` and `moves` are written under the lock and read by anybody.
  SpinMutex mutex;
  std::atomic<bool> driven{false};
  std::atomic<uint64_t> moves{0};       // how often the token was taken, granted or released
  BlockingTask* driving_for = nullptr;  // driver only; handed over under the lock
  LoopTaskQueue submitted ABSL_GUARDED_BY(mutex);
  BlockingTask* first_waiter ABSL_GUARDED_BY(mutex) = nullptr;
  BlockingTask* last_waiter ABSL_GUARDED_BY(mutex) = nullptr;
  bool helper_parked_for_good ABSL_GUARDED_BY(mutex) = false;

  // What the driver checks in every turn without the lock.
  std::atomic<bool> has_submissions{false};
  std::atomic<bool> has_waiters{false};
  // A blocked caller came while the helper drove: it leaves, so that the next call finds the token
  // free even when this one was finished already.
  std::atomic<bool> caller_came{false};
  std::atomic<bool> stopping{false};
  std::atomic<int64_t> async_work{0};
  std::atomic<int64_t> upkeep{0};
  // Somebody but pollers has, or had, to do with Asio: EventLoop::io(), an executor's context.
  std::atomic<bool> asio_used{false};

  // Waking. `sleeping` and `has_submissions`/`stopping` are a Dekker pair: each side writes its own
  // and then reads the other's, sequentially consistent, so that one of them always sees the other.
  std::atomic<bool> sleeping{false};
  std::atomic<bool> wake_posted{false};   // the wake-up in `wake_block` is on its way
  std::atomic<bool> helper_woken{false};  // helper_event is signalled
  alignas(std::max_align_t) std::array<std::byte, 128> wake_block;

  // Driver only.
  LoopTaskQueue running;  // submissions of this turn that have not run yet
  std::vector<LoopTask*> end_of_turn;
  std::vector<Poller*> pollers;  // nullptr: removed during this turn
  bool pollers_removed = false;
  TimePoint now_value{};
  bool now_read = false;
  uint64_t turns = 0;
  // Beside pollers: when Asio was looked at, and how long after that the next look is due.
  TimePoint last_asio_poll{};
  Duration asio_pause{};
  TimerWheel timers;
  TimePoint last_timer_look{};

  TaskMemory task_memory;
  CoroutineMemory coroutine_memory;  // driver only

  // Last, so that handlers that die with it may still touch the rest.
  std::optional<LoopContext> io;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_guard;

 private:
  size_t DropSubmissions();
  void Push(LoopTask& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void RemoveWaiter(BlockingTask& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  bool Take(BlockingTask* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void NoteMove() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    moves.store(moves.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  size_t FireTimers(Timers timers_to_fire);
  size_t CatchUp();
  size_t PollPollers();
  size_t PollAsio(size_t limit);
  bool AsioIsDue() const;
  void PlanAsioPoll(bool found);
  bool ShouldLeave(const BlockingTask* task) const;
  bool Spins(const BlockingTask* task) const;
  void Sleep();
  void WaitInAsio();

  void HelperMain();
  void HelperDrive();
  bool ParkForGood();
  void Park(int timeout_ms);
};

// Marks this thread as driver of a loop; loops nest when a driver makes a blocking call on another
// loop.
class DriverScope {
 public:
  explicit DriverScope(LoopState& loop);
  ~DriverScope();
  DriverScope(const DriverScope&) = delete;
  DriverScope& operator=(const DriverScope&) = delete;

  static bool Holds(const LoopState& loop);

 private:
  const LoopState& loop_;
  const DriverScope* const outer_;
  const CoroutineMemory::Scope frames_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_LOOP_STATE_H_
