// The token: who drives, who waits, and how work reaches the driver.

#include "farcall/rpc/event_loop.h"

#include <boost/asio/execution/allocator.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/require.hpp>
#include <cassert>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "farcall/rpc/loop_executor.h"
#include "farcall/rpc/loop_state.h"
#include "farcall/rpc/resources.h"

namespace farcall {
namespace {

thread_local const DriverScope* current_scope = nullptr;

// A callable of Post: owns itself.
class PostedTask final : public LoopTask {
 public:
  explicit PostedTask(absl::AnyInvocable<void()> work) : work_(std::move(work)) {}
  void Run() override {
    absl::AnyInvocable<void()> work = std::move(work_);
    delete this;
    work();
  }

 private:
  void Drop() override { delete this; }
  absl::AnyInvocable<void()> work_;
};

// Hands out the one block that a loop keeps for its wake-up.
template <typename T>
struct WakeAllocator {
  using value_type = T;
  explicit WakeAllocator(LoopState& owner) : loop(&owner) {}
  template <typename U>
  // NOLINTNEXTLINE(google-explicit-constructor): Asio's rebinding is implicit
  WakeAllocator(const WakeAllocator<U>& other) : loop(other.loop) {}

  T* allocate(size_t count) {
    assert(count * sizeof(T) <= sizeof(loop->wake_block));
    (void)count;
    return reinterpret_cast<T*>(loop->wake_block.data());
  }
  void deallocate(T*, size_t) {}
  template <typename U>
  bool operator==(const WakeAllocator<U>& other) const {
    return loop == other.loop;
  }

  LoopState* loop;
};

}  // namespace

DriverScope::DriverScope(LoopState& loop)
    : loop_(loop), outer_(current_scope), frames_(loop.coroutine_memory) {
  current_scope = this;
}

DriverScope::~DriverScope() { current_scope = outer_; }

bool DriverScope::Holds(const LoopState& loop) {
  for (const DriverScope* scope = current_scope; scope != nullptr; scope = scope->outer_) {
    if (&scope->loop_ == &loop) return true;
  }
  return false;
}

// ---- submitting and waking ----

bool LoopState::DrivenByThisThread() const { return DriverScope::Holds(*this); }

void LoopState::Push(LoopTask& task) {
  task.next_ = nullptr;
  (submitted.last != nullptr ? submitted.last->next_ : submitted.first) = &task;
  submitted.last = &task;
  has_submissions.store(true);
}

void LoopState::Submit(LoopTask& task) {
  // Acquire and release with the exchange in RunSubmissions: a caller that finds the task queued
  // knows that Run will see what the caller wrote before.
  if (task.queued_.exchange(true, std::memory_order_acq_rel)) return;
  std::shared_ptr<LoopState> keep;  // the task may destroy the loop before we have woken anybody
  bool token_free = false;
  {
    SpinLock lock(mutex);
    Push(task);
    token_free = !driven.load(std::memory_order_relaxed);
    if (token_free ? !has_helper : !DriverSleepsElsewhere()) return;
    keep = shared_from_this();
  }
  if (token_free) {
    WakeHelper();
  } else {
    WakeDriver();
  }
}

void LoopState::Add(std::atomic<int64_t>& work) {
  work.fetch_add(1);
  if (!driven.load()) WakeHelper();
}

bool LoopState::DriverSleepsElsewhere() const {
  // `sleeping` also covers the handler that Asio runs when the sleep ends: that is this thread.
  return sleeping.load() && !DrivenByThisThread();
}

void LoopState::WakeDriver() {
  if (wake_posted.exchange(true, std::memory_order_acq_rel)) return;
  const auto executor = asio::require(io->get_executor(), asio::execution::blocking.never,
                                      asio::execution::allocator(WakeAllocator<std::byte>(*this)));
  executor.execute([this] { wake_posted.store(false, std::memory_order_release); });
}

// ---- the token ----

bool LoopState::Take(BlockingTask* task) {
  if (driven.load(std::memory_order_relaxed)) return false;
  driven.store(true, std::memory_order_relaxed);  // who sees it late wakes the helper in vain
  driving_for = task;
  NoteMove();
  return true;
}

bool LoopState::TryTake(BlockingTask* task) {
  SpinLock lock(mutex);
  return Take(task);
}

LoopState::Turnout LoopState::TakeOrWait(BlockingTask& task) {
  task.finished_ = false;
  task.granted_ = false;
  task.loop_ = this;
  {
    SpinLock lock(mutex);
    if (Take(&task)) return Turnout::kTaken;
    thread_local BlockingTask::Bench bench;
    task.bench_ = &bench;
    task.next_waiter_ = nullptr;
    (last_waiter != nullptr ? last_waiter->next_waiter_ : first_waiter) = &task;
    last_waiter = &task;
    has_waiters.store(true);
    caller_came.store(true);
    task.queued_.store(true, std::memory_order_relaxed);
    Push(task);
  }
  if (DriverSleepsElsewhere()) WakeDriver();
  return task.Wait() ? Turnout::kGranted : Turnout::kFinished;
}

void LoopState::RemoveWaiter(BlockingTask& task) {
  BlockingTask* previous = nullptr;
  for (BlockingTask* waiter = first_waiter; waiter != nullptr; waiter = waiter->next_waiter_) {
    if (waiter == &task) {
      (previous != nullptr ? previous->next_waiter_ : first_waiter) = task.next_waiter_;
      if (last_waiter == &task) last_waiter = previous;
      break;
    }
    previous = waiter;
  }
  has_waiters.store(first_waiter != nullptr);
}

void LoopState::Release() {
  bool wake_helper = false;
  BlockingTask* next = nullptr;
  {
    SpinLock lock(mutex);
    NoteMove();
    next = first_waiter;
    driving_for = next;
    if (next != nullptr) {
      RemoveWaiter(*next);
    } else {
      driven.store(false);  // before WantsDriver looks: see Add
      wake_helper = submitted.first != nullptr || helper_parked_for_good || WantsDriver();
      helper_parked_for_good = false;
    }
  }
  // Straight into the waiter's hands: `driven` stayed true, nobody can come between.
  if (next != nullptr) {
    next->Wake(&BlockingTask::granted_);
  } else if (wake_helper) {
    WakeHelper();
  }
}

void LoopState::Finished(BlockingTask& task) {
  assert(DrivenByThisThread());
  if (driving_for == &task) {  // our own caller drives: it looks at the flag after this turn
    task.finished_ = true;
    return;
  }
  {
    SpinLock lock(mutex);
    RemoveWaiter(task);
  }
  task.Wake(&BlockingTask::finished_);
}

void LoopState::RunLeftovers() {
  // What leftovers submit is run too, but a task that submits itself for ever does not hold up the
  // end.
  constexpr int kMaxRounds = 1000;
  for (int round = 0; round < kMaxRounds; ++round) {
    const size_t done = RunSubmissions();
    RunEndOfTurn();
    if (done == 0 && !has_submissions.load()) break;
  }
  timers.Clear();
  pollers.clear();
}

// ---- the public face ----

void BlockingTask::Finish() { loop_->Finished(*this); }

void BlockingTask::Wake(bool BlockingTask::*why) {
  MutexLock lock(bench_->mutex);
  this->*why = true;
  bench_->wake.notify_one();  // under the lock: once it is free this may be gone
}

bool BlockingTask::Wait() {
  std::unique_lock<std::mutex> lock(bench_->mutex.native());
  bench_->wake.wait(lock, [this] { return finished_ || granted_; });
  return granted_;
}

EventLoop::EventLoop(EventLoopOptions options)
    : state_(std::make_shared<LoopState>(std::move(options))) {
  if (state_->has_helper) state_->StartHelper(state_);
}

absl::StatusOr<std::shared_ptr<EventLoop>> EventLoop::Create(EventLoopOptions options) {
  constexpr char kFailed[] = "an event loop cannot be made";
  try {
    return std::make_shared<EventLoop>(std::move(options));
  } catch (const std::system_error& error) {
    return OutOfResources(kFailed, error.code());
  } catch (const std::bad_alloc&) {
    return OutOfResources(kFailed, std::make_error_code(std::errc::not_enough_memory));
  }
}

EventLoop::~EventLoop() {
  LoopState& loop = *state_;
  const bool inside = loop.DrivenByThisThread();
  loop.stopping.store(true);
  if (loop.helper.joinable()) {
    if (loop.helper.get_id() == std::this_thread::get_id()) {
      loop.helper.detach();  // it holds the state until it has unwound
    } else {
      if (loop.DriverSleepsElsewhere()) loop.WakeDriver();
      loop.WakeHelper();
      loop.helper.join();
    }
  }
  if (inside) {
    loop.RunLeftovers();
    return;
  }
  const bool taken = loop.TryTake(nullptr);
  assert(taken && "an EventLoop was destroyed while a thread was blocked in it");
  (void)taken;
  DriverScope scope(loop);
  loop.RunLeftovers();
}

bool EventLoop::IsDriver() const { return state_->DrivenByThisThread(); }
void EventLoop::Submit(LoopTask& task) { state_->Submit(task); }
void EventLoop::Post(absl::AnyInvocable<void()> work) {
  state_->Submit(*new PostedTask(std::move(work)));
}

absl::Status EventLoop::RunBlocking(BlockingTask& task) {
  LoopState& loop = *state_;
  if (loop.DrivenByThisThread()) {
    return absl::FailedPreconditionError(
        "blocking call from a handler or callback of the same event loop: it would wait for "
        "itself; "
        "use the asynchronous call, or make the call from another thread");
  }
  const LoopState::Turnout turnout = loop.TakeOrWait(task);
  if (turnout == LoopState::Turnout::kFinished) return absl::OkStatus();
  {
    DriverScope scope(loop);
    loop.DriveFor(task, turnout == LoopState::Turnout::kTaken);
  }
  loop.Release();
  return absl::OkStatus();
}

LoopExecutor EventLoop::executor() { return LoopExecutor(state_.get()); }
asio::io_context& EventLoop::io() { return state_->UseAsio(); }
asio::io_context& EventLoop::poller_io() { return *state_->io; }
Clock& EventLoop::clock() const { return state_->clock; }
ProgressMode EventLoop::mode() const { return state_->options.mode; }

void EventLoop::AddAsyncWork() { state_->Add(state_->async_work); }
void EventLoop::RemoveAsyncWork() { state_->async_work.fetch_sub(1); }
void EventLoop::AddUpkeep() { state_->Add(state_->upkeep); }
void EventLoop::RemoveUpkeep() { state_->upkeep.fetch_sub(1); }

TimePoint EventLoop::now() const { return state_->Now(); }
TimerWheel& EventLoop::timers() { return state_->timers; }
void EventLoop::RunAtEndOfTurn(LoopTask& task) { state_->AddToEndOfTurn(task); }
void EventLoop::CancelEndOfTurn(LoopTask& task) { state_->CancelEndOfTurn(task); }
void EventLoop::AddPoller(Poller& poller) { state_->pollers.push_back(&poller); }
void EventLoop::RemovePoller(Poller& poller) { state_->RemovePoller(poller); }

size_t EventLoop::RunOnce() {
  const std::shared_ptr<LoopState> loop = state_;  // a callback may destroy the loop
  if (loop->DrivenByThisThread() || !loop->TryTake(nullptr)) return 0;
  // Bounds a turn beside handlers that post handlers for ever.
  constexpr size_t kMaxHandlers = 1024;
  size_t work = 0;
  {
    DriverScope scope(*loop);
    work = loop->Turn(LoopState::Timers::kExact, kMaxHandlers);
  }
  loop->Release();
  return work;
}

}  // namespace farcall
