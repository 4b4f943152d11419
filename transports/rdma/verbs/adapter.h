// An adapter that librdmacm has open, and what it can do. Any thread.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_ADAPTER_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_ADAPTER_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/mutex.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/fork_guard.h"

namespace farcall::verbs {

class Adapter {
 public:
  // That of `context`, one a process. `context` is librdmacm's, which never closes it.
  static absl::StatusOr<std::shared_ptr<Adapter>> Of(ibv_context* context);
  explicit Adapter(ibv_context* context) : context_(context) {}

  ibv_context* context() const { return context_; }
  const rdma::Capabilities& capabilities() const { return capabilities_; }
  const std::string& name() const { return capabilities_.name; }
  // A port is up.
  bool active() const { return active_; }

  // A completion queue that is told of its overrun, until it is forgotten.
  void Watch(ibv_cq* queue, std::atomic<bool>& overrun);
  void Forget(ibv_cq* queue);
  // Takes what the adapter says beside completions: marks completion queues that overran, and the
  // adapter if it failed. Does not block.
  void ReadAsyncEvents();
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  int async_fd() const { return context_->async_fd; }
  // A parent process opened it.
  bool inherited() const { return guard_.inherited(); }

 private:
  absl::Status Ask();

  const rdma::ForkGuard guard_;
  ibv_context* const context_;
  rdma::Capabilities capabilities_;  // constant after Ask
  bool active_ = false;
  std::atomic<bool> failed_{false};

  Mutex mutex_;  // also: one reader of events at a time
  std::map<ibv_cq*, std::atomic<bool>*> queues_ ABSL_GUARDED_BY(mutex_);
};

// All adapters of the machine, opened. UNAVAILABLE or PERMISSION_DENIED: why there is none.
absl::StatusOr<std::vector<std::shared_ptr<Adapter>>> OpenAdapters();

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_ADAPTER_H_
