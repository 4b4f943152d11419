#include "farcall/transports/rdma/device_memory.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"

namespace farcall::rdma {
namespace {

size_t OrderOf(size_t piece, size_t smallest) {
  return static_cast<size_t>(std::countr_zero(piece) - std::countr_zero(smallest));
}

}  // namespace

bool Budget::Take(size_t bytes) {
  size_t left = left_.load(std::memory_order_relaxed);
  do {
    if (bytes > left) return false;
  } while (!left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed));
  return true;
}

absl::Status Budget::Exhausted(size_t wanted) const {
  return absl::ResourceExhaustedError(absl::StrCat("no room for ", wanted,
                                                   " bytes: all connections together have used up ",
                                                   option_, ", ", bytes_, " bytes"));
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> DeviceMemory::Make(size_t bytes) {
  if (!budget_->Take(bytes)) return budget_->Exhausted(bytes);
  absl::StatusOr<std::unique_ptr<MemoryRegion>> region = domain_->Allocate(bytes, access_);
  if (!region.ok()) {
    budget_->Give(bytes);
    return region.status();
  }
  registrations_.fetch_add(1, std::memory_order_relaxed);
  return region;
}

SlabSource::Slab DeviceMemory::SlabAt(const MemoryRegion& region, size_t offset,
                                      size_t bytes) const {
  return {region.memory().data() + offset, bytes, this, RegionName(region)};
}

absl::StatusOr<SlabSource::Slab> DeviceMemory::Map(size_t bytes) {
  if (bytes > kLargestPiece) {
    absl::StatusOr<std::unique_ptr<MemoryRegion>> region = Make(bytes);
    if (!region.ok()) return region.status();
    return SlabAt(*region->release(), 0, bytes);  // until Unmap
  }
  const size_t piece = std::bit_ceil(std::max(bytes, kSmallestPiece));
  const size_t order = OrderOf(piece, kSmallestPiece);
  size_t offset = 0;
  MutexLock lock(mutex_);
  for (auto& [base, shared] : shared_) {
    if (TakePiece(shared, order, offset)) return SlabAt(*shared.region, offset, bytes);
  }
  absl::StatusOr<std::unique_ptr<MemoryRegion>> region = Make(std::max(piece, next_shared_));
  if (!region.ok()) region = Make(piece);  // near a limit
  if (!region.ok()) return region.status();
  next_shared_ = std::min(next_shared_ * 4, kLargestShared);
  Shared& shared = shared_[(*region)->memory().data()];
  shared.region = *std::move(region);
  // Whole pieces of the largest size, or one that is smaller.
  const size_t size = shared.region->memory().size();
  const size_t largest = std::min(size, kLargestPiece);
  for (size_t at = 0; at < size; at += largest) {
    shared.free[OrderOf(largest, kSmallestPiece)].insert(at);
  }
  TakePiece(shared, order, offset);
  return SlabAt(*shared.region, offset, bytes);
}

// The first piece of the order, cut off a larger one when there is none.
bool DeviceMemory::TakePiece(Shared& shared, size_t order, size_t& offset) {
  size_t from = order;
  while (from < kOrders && shared.free[from].empty()) ++from;
  if (from == kOrders) return false;
  offset = *shared.free[from].begin();
  shared.free[from].erase(shared.free[from].begin());
  while (from > order) {
    --from;
    shared.free[from].insert(offset + (kSmallestPiece << from));
  }
  ++shared.leased;
  return true;
}

// Together with its other half, when that is free, it is a piece of the next order.
void DeviceMemory::ReturnPiece(Shared& shared, size_t order, size_t offset) {
  --shared.leased;
  while (order + 1 < kOrders) {
    const size_t other = offset ^ (kSmallestPiece << order);
    if (shared.free[order].erase(other) == 0) break;
    offset = std::min(offset, other);
    ++order;
  }
  shared.free[order].insert(offset);
}

void DeviceMemory::Unmap(const Slab& slab) {
  if (slab.size > kLargestPiece) {
    budget_->Give(slab.size);
    const std::unique_ptr<const MemoryRegion> owned(&RegionOf(slab.region));
    return;
  }
  std::unique_ptr<MemoryRegion> unused;
  MutexLock lock(mutex_);
  const auto at = std::prev(shared_.upper_bound(slab.base));
  Shared& shared = at->second;
  const size_t piece = std::bit_ceil(std::max(slab.size, kSmallestPiece));
  ReturnPiece(shared, OrderOf(piece, kSmallestPiece), static_cast<size_t>(slab.base - at->first));
  if (shared.leased != 0) return;
  budget_->Give(shared.region->memory().size());
  unused = std::move(shared.region);
  shared_.erase(at);
}

}  // namespace farcall::rdma
