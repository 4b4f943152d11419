// WorkerPool: threads for handlers that may block.

#ifndef FARCALL_RPC_WORKER_POOL_H_
#define FARCALL_RPC_WORKER_POOL_H_

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/rpc/asio.h"

namespace farcall {

// Not asio::thread_pool, whose constructor waits for ever when the system refuses it a thread.
class WorkerPool {
 public:
  // `threads` of them, at least one; RESOURCE_EXHAUSTED when the system does not have so many.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Start(size_t threads);
  // Waits for the work that was posted.
  ~WorkerPool() { Join(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs `work`, which does not throw, on one of the threads. Any thread.
  template <class Work>
  void Post(Work&& work) {
    asio::post(context_, std::forward<Work>(work));
  }

  // Waits for the work that was posted; nothing may be posted afterwards. Idempotent.
  void Join();

 private:
  WorkerPool() = default;

  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  std::vector<std::thread> threads_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_WORKER_POOL_H_
