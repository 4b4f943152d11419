#include "farcall/transports/rdma/user_regions.h"

#include <utility>

namespace farcall::rdma {

UserRegions::~UserRegions() {
  std::vector<std::weak_ptr<UserMemory>> known;
  {
    MutexLock lock(mutex_);
    known = std::move(known_);
  }
  for (const std::weak_ptr<UserMemory>& weak : known) {
    if (const auto memory = weak.lock()) memory->Forget(this);
  }
}

absl::StatusOr<const MemoryRegion*> UserRegions::Of(UserMemory& memory) {
  const auto make = [&]() -> absl::StatusOr<UserMemory::Registration> {
    absl::StatusOr<std::unique_ptr<MemoryRegion>> region =
        domain_->Register(memory.memory(), access_);
    if (!region.ok()) return region.status();
    registrations_.fetch_add(1, std::memory_order_relaxed);
    MutexLock lock(mutex_);
    std::erase_if(known_, [](const auto& weak) { return weak.expired(); });
    known_.push_back(memory.weak_from_this());
    return UserMemory::Registration(*std::move(region));
  };
  absl::StatusOr<UserMemory::Registration> found = memory.RegistrationFor(this, make);
  if (!found.ok()) return found.status();
  return static_cast<const MemoryRegion*>(found->get());
}

}  // namespace farcall::rdma
