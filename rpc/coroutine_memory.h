// CoroutineMemory: where coroutines of Asio that run on a driver find memory for their frames.
//
// Asio keeps two blocks of each kind for the thread that is inside of io_context::run; everywhere
// else each frame of an asio::awaitable is a heap allocation. A loop runs most of its work outside
// of its io_context, so it keeps such blocks of its own. The class that holds them is a detail of
// Asio (boost/asio/detail/thread_info_base.hpp of Boost 1.81): were it to go away, this file may be
// empty, at the price of the allocations.

#ifndef FARCALL_RPC_COROUTINE_MEMORY_H_
#define FARCALL_RPC_COROUTINE_MEMORY_H_

#include <boost/asio/detail/thread_context.hpp>
#include <boost/asio/detail/thread_info_base.hpp>

#include "farcall/rpc/asio.h"

namespace farcall {

class CoroutineMemory final : private asio::detail::thread_context {
 public:
  // While one exists, frames on this thread come from `memory`, which one thread uses at a time.
  class Scope {
   public:
    explicit Scope(CoroutineMemory& memory) : context_(&memory, memory.blocks_) {}

   private:
    asio::detail::thread_context::thread_call_stack::context context_;
  };

 private:
  asio::detail::thread_info_base blocks_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_COROUTINE_MEMORY_H_
