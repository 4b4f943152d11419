// An asynchronous call: a ClientCall that owns an Asio handler.

#ifndef FARCALL_RPC_ASYNC_CALL_H_
#define FARCALL_RPC_ASYNC_CALL_H_

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "farcall/rpc/call.h"
#include "farcall/rpc/channel_core.h"
#include "farcall/rpc/loop_executor.h"

namespace farcall {

// Whether handlers of `executor` may run inline here: it is that of a loop which this thread
// drives.
template <class Executor>
bool RunsHere(const Executor& executor) {
  if constexpr (std::is_same_v<Executor, LoopExecutor>) {
    return executor.running_in_this_thread();
  } else if constexpr (requires { executor.template target<LoopExecutor>(); }) {
    const LoopExecutor* target = executor.template target<LoopExecutor>();
    return target != nullptr && target->running_in_this_thread();
  } else {
    return false;
  }
}

// Whether a completion token for void(Result) is its own handler, and so is started at once.
template <class Token, class Result>
concept IsHandler = std::is_invocable_v<Token, Result> &&
    std::is_same_v<typename asio::async_result<Token, void(Result)>::completion_handler_type,
                   Token>;

// `Convert` turns a status, a Message and the channel that they are of into what the handler takes.
template <class Handler, class Convert>
class AsyncCallOperation final : public ClientCall, private LoopTask {
 public:
  // `arguments`: of one of ClientCall's constructors.
  template <class... Arguments>
  static void Start(std::shared_ptr<ChannelCore> core, Handler&& handler, Convert convert,
                    Arguments&&... arguments) {
    uint64_t cancel_key = 0;
    auto slot = asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) {
      cancel_key = core->NextCancelKey();
      slot.assign(
          [to = std::weak_ptr<ChannelCore>(core), cancel_key](asio::cancellation_type type) {
            if (type == asio::cancellation_type::none) return;
            if (const auto alive = to.lock()) alive->RequestCancel(cancel_key);
          });
    }
    Allocator allocator = AllocatorOf(handler, *core);
    AsyncCallOperation* operation = Traits::allocate(allocator, 1);
    Traits::construct(allocator, operation, std::move(core), cancel_key, std::move(handler),
                      convert, std::forward<Arguments>(arguments)...);
    EventLoop& loop = operation->core_->loop();
    loop.AddAsyncWork();
    if (operation->request().status.ok() && loop.IsDriver()) {
      operation->core_->Start(*operation);  // no turn lost, and OnDone never runs inside it
    } else {
      loop.Submit(*operation);
    }
  }

  template <class... Arguments>
  AsyncCallOperation(std::shared_ptr<ChannelCore> core, uint64_t cancel_key, Handler&& handler,
                     Convert convert, Arguments&&... arguments)
      : ClientCall(cancel_key, std::forward<Arguments>(arguments)...),
        core_(std::move(core)),
        work_(asio::get_associated_executor(handler, core_->loop().executor())),
        handler_(std::move(handler)),
        convert_(convert) {}

 private:
  // The handler's own, or the loop's blocks.
  using Allocator =
      typename std::allocator_traits<asio::associated_allocator_t<Handler, LoopAllocator<void>>>::
          template rebind_alloc<AsyncCallOperation>;
  using Traits = std::allocator_traits<Allocator>;

  static Allocator AllocatorOf(const Handler& handler, ChannelCore& core) {
    return Allocator(
        asio::get_associated_allocator(handler, LoopAllocator<void>(core.loop().executor())));
  }

  void Run() override {
    if (request().status.ok()) {
      core_->Start(*this);
    } else {
      OnDone(absl::Status(request().status), {});
    }
  }

  void OnDone(absl::Status&& status, Message&& reply) override {
    // The handler may start the next call: this one's memory must be free for it.
    const std::shared_ptr<ChannelCore> core = std::move(core_);
    auto work = std::move(work_);
    auto result = convert_(std::move(status), std::move(reply), *core);
    Handler handler = std::move(handler_);
    Allocator allocator = AllocatorOf(handler, *core);
    Traits::destroy(allocator, this);
    Traits::deallocate(allocator, this, 1);

    core->loop().RemoveAsyncWork();
    if (RunsHere(work.get_executor())) {
      std::move(handler)(std::move(result));
      return;
    }
    asio::dispatch(work.get_executor(),
                   [handler = std::move(handler), result = std::move(result)]() mutable {
                     std::move(handler)(std::move(result));
                   });
  }

  std::shared_ptr<ChannelCore> core_;
  // Keeps the handler's context running until the handler did.
  asio::executor_work_guard<asio::associated_executor_t<Handler, LoopExecutor>> work_;
  Handler handler_;
  [[no_unique_address]] Convert convert_;
};

template <class Handler, class Convert, class... Arguments>
void StartAsyncCall(const Channel& channel, Handler&& handler, Convert convert,
                    Arguments&&... arguments) {
  using Operation = AsyncCallOperation<std::decay_t<Handler>, Convert>;
  std::decay_t<Handler> own(std::forward<Handler>(handler));
  Operation::Start(channel.core().shared_from_this(), std::move(own), convert,
                   std::forward<Arguments>(arguments)...);
}

}  // namespace farcall

#endif  // FARCALL_RPC_ASYNC_CALL_H_
