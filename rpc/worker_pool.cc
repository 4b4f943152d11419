#include "farcall/rpc/worker_pool.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/resources.h"

namespace farcall {

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Start(size_t threads) {
  threads = std::max<size_t>(1, threads);
  std::unique_ptr<WorkerPool> pool(new WorkerPool);
  const auto failed = [&](const std::error_code& cause) {
    return OutOfResources(
        Std(absl::StrCat("thread ", pool->threads_.size() + 1, " of ", threads,
                         " for blocking services (ServerOptions::workers) cannot be started")),
        cause);
  };
  try {
    pool->threads_.reserve(threads);
    while (pool->threads_.size() < threads) {
      pool->threads_.push_back(
          StartThread("fc-worker", [&context = pool->context_] { context.run(); }));
    }
  } catch (const std::system_error& error) {
    return failed(error.code());
  } catch (const std::bad_alloc&) {
    return failed(std::make_error_code(std::errc::not_enough_memory));
  }
  return pool;
}

void WorkerPool::Join() {
  work_.reset();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace farcall
