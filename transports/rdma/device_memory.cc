#include "farcall/transports/rdma/device_memory.h"

#include "absl/strings/str_cat.h"

namespace farcall::rdma {

bool Budget::Take(size_t bytes) {
  size_t left = left_.load(std::memory_order_relaxed);
  do {
    if (bytes > left) return false;
  } while (!left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed));
  return true;
}

absl::StatusOr<SlabSource::Slab> DeviceMemory::Map(size_t bytes) {
  if (!budget_->Take(bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no room for ", bytes, " bytes: all connections together have used up ",
                     budget_->option(), ", ", budget_->bytes(), " bytes"));
  }
  absl::StatusOr<std::unique_ptr<MemoryRegion>> region = domain_->Allocate(bytes, access_);
  if (!region.ok()) {
    budget_->Give(bytes);
    return region.status();
  }
  MemoryRegion* const owned = region->release();  // until Unmap
  return Slab{owned->memory().data(), bytes, this, RegionName(*owned)};
}

void DeviceMemory::Unmap(const Slab& slab) {
  delete &RegionOf(slab.region);
  budget_->Give(slab.size);
}

}  // namespace farcall::rdma
