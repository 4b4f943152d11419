// LoopExecutor: an EventLoop as an Asio executor, for coroutines, timers and handlers.
//
//   asio::co_spawn(loop.executor(), Work(), asio::detached);
//   asio::steady_timer timer(loop.executor());
//   asio::post(loop.executor(), [] { … });
//
// dispatch runs inline on the driver; post and defer always queue, in order with Submit and Post,
// and wake the loop. A queued handler costs no heap allocation in steady state (the loop recycles
// blocks up to 1024 bytes), but asio::any_io_executor, which asio::awaitable uses, makes one of its
// own.
//
// A copy is one pointer and owns nothing: like an io_context's executor it must not be used after
// its loop is gone. Pending work does not keep the loop alive; ~EventLoop says what becomes of it.

#ifndef FARCALL_RPC_LOOP_EXECUTOR_H_
#define FARCALL_RPC_LOOP_EXECUTOR_H_

#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution/executor.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "farcall/rpc/asio.h"
#include "farcall/rpc/event_loop.h"

namespace farcall {

class LoopExecutor {
 public:
  using Blocking = asio::execution::blocking_t;

  // Asio's property interface: context, blocking.possibly (inline on the driver; the default) and
  // blocking.never.
  asio::io_context& query(asio::execution::context_t) const noexcept;
  Blocking query(Blocking) const noexcept {
    return may_run_inline_ ? Blocking(Blocking::possibly) : Blocking(Blocking::never);
  }
  LoopExecutor require(Blocking::possibly_t) const noexcept { return LoopExecutor(loop_, true); }
  LoopExecutor require(Blocking::never_t) const noexcept { return LoopExecutor(loop_, false); }

  friend bool operator==(const LoopExecutor&, const LoopExecutor&) noexcept = default;

  // True on the driver. Any thread.
  bool running_in_this_thread() const noexcept;

  // Runs `function` inline (blocking.possibly, on the driver) or in a coming turn. Any thread.
  template <typename Function>
  void execute(Function&& function) const {
    if (may_run_inline_ && running_in_this_thread()) {
      std::decay_t<Function> callable(std::forward<Function>(function));
      std::move(callable)();
      return;
    }
    using Task = FunctionTask<std::decay_t<Function>>;
    static_assert(alignof(Task) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    void* block = Allocate(loop_, sizeof(Task));
    Task* task = nullptr;
    try {
      task = new (block) Task(loop_, std::forward<Function>(function));
    } catch (...) {
      Free(loop_, block, sizeof(Task));
      throw;
    }
    Submit(loop_, *task);
  }

 private:
  friend class EventLoop;
  template <typename T>
  friend class LoopAllocator;

  template <typename Function>
  class FunctionTask final : public LoopTask {
   public:
    template <typename F>
    FunctionTask(LoopState* loop, F&& function)
        : loop_(loop), function_(std::forward<F>(function)) {}

    void Run() override {
      // The block is free before the call, so that what it queues takes the same one.
      Function function(std::move(function_));
      Drop();
      std::move(function)();
    }

   private:
    void Drop() override {
      LoopState* loop = loop_;
      this->~FunctionTask();
      Free(loop, this, sizeof(FunctionTask));
    }

    LoopState* const loop_;
    Function function_;
  };

  explicit LoopExecutor(LoopState* loop, bool may_run_inline = true) noexcept
      : loop_(loop), may_run_inline_(may_run_inline) {}

  static void* Allocate(LoopState* loop, size_t bytes);
  static void Free(LoopState* loop, void* block, size_t bytes);
  static void Submit(LoopState* loop, LoopTask& task);

  LoopState* loop_;
  bool may_run_inline_;
};

// Memory from the blocks that a loop recycles; larger ones are the heap's. Any thread, while the
// loop exists.
template <typename T>
class LoopAllocator {
 public:
  using value_type = T;

  explicit LoopAllocator(const LoopExecutor& executor) noexcept : loop_(executor.loop_) {}
  template <typename U>
  // NOLINTNEXTLINE(google-explicit-constructor): rebinding is implicit
  LoopAllocator(const LoopAllocator<U>& other) noexcept : loop_(other.loop_) {}

  T* allocate(size_t count) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    return static_cast<T*>(LoopExecutor::Allocate(loop_, count * sizeof(T)));
  }
  void deallocate(T* block, size_t count) { LoopExecutor::Free(loop_, block, count * sizeof(T)); }

  template <typename U>
  bool operator==(const LoopAllocator<U>& other) const noexcept {
    return loop_ == other.loop_;
  }

 private:
  template <typename U>
  friend class LoopAllocator;
  LoopState* loop_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_LOOP_EXECUTOR_H_
