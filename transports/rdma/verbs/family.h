// Family: the devices of one MakeVerbsDevice, one an adapter, made when a route first leads through
// it. Any thread.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_FAMILY_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_FAMILY_H_

#include <infiniband/verbs.h>

#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/mutex.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/verbs/adapter.h"
#include "farcall/transports/rdma/verbs/verbs.h"

namespace farcall::verbs {

class Family : public std::enable_shared_from_this<Family> {
 public:
  explicit Family(VerbsOptions options) : options_(std::move(options)) {}

  const VerbsOptions& options() const { return options_; }
  std::shared_ptr<rdma::Device> DeviceOf(const std::shared_ptr<Adapter>& adapter);
  // That of the adapter which `id`'s route leads through. Not OK: the options want another one.
  absl::StatusOr<std::shared_ptr<Adapter>> AdapterOf(ibv_context* context) const;

 private:
  const VerbsOptions options_;
  Mutex mutex_;
  // They hold the family.
  std::map<const Adapter*, std::weak_ptr<rdma::Device>> devices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_FAMILY_H_
