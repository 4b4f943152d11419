// UserRegions: memory of the user's own (rpc/user_memory.h) as regions of one protection domain:
// each handle is registered once, when it is first needed, and until the handle or this goes. Any
// thread.

#ifndef FARCALL_TRANSPORTS_RDMA_USER_REGIONS_H_
#define FARCALL_TRANSPORTS_RDMA_USER_REGIONS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/user_memory.h"
#include "farcall/transports/rdma/device.h"

namespace farcall::rdma {

class UserRegions {
 public:
  UserRegions(std::shared_ptr<ProtectionDomain> domain, Access access)
      : domain_(std::move(domain)), access_(access) {}
  // Deregisters all. No request that names one is out any more.
  ~UserRegions();

  // The region of the whole handle, valid as long as it and this. What the device says when it
  // takes no more. The first one of a handle takes as long as the device needs for so many bytes.
  absl::StatusOr<const MemoryRegion*> Of(UserMemory& memory);

  // Regions that were made so far.
  uint64_t registrations() const { return registrations_.load(std::memory_order_relaxed); }

 private:
  const std::shared_ptr<ProtectionDomain> domain_;
  const Access access_;
  std::atomic<uint64_t> registrations_{0};

  Mutex mutex_;
  std::vector<std::weak_ptr<UserMemory>> known_ ABSL_GUARDED_BY(mutex_);  // with a region here
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_USER_REGIONS_H_
