// DeviceMemory: a pool's slabs as memory of one protection domain, within a budget that all
// connections of a transport share.
//
// A region costs a device a key, a call, and often a descriptor or a pinned mapping, so that small
// slabs are cut out of regions that grow with the need; a large one has a region of its own, and
// goes back to the system by itself.

#ifndef FARCALL_TRANSPORTS_RDMA_DEVICE_MEMORY_H_
#define FARCALL_TRANSPORTS_RDMA_DEVICE_MEMORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/mutex.h"
#include "farcall/transports/rdma/device.h"

namespace farcall::rdma {

// Bytes that may still be taken. Any thread.
class Budget {
 public:
  // `option`: what to raise, for errors.
  Budget(size_t bytes, const char* option) : bytes_(bytes), option_(option), left_(bytes) {}

  bool Take(size_t bytes);
  void Give(size_t bytes) { left_.fetch_add(bytes, std::memory_order_relaxed); }
  absl::Status Exhausted(size_t wanted) const;

 private:
  const size_t bytes_;
  const char* const option_;
  std::atomic<size_t> left_;
};

// The `domain` of its buffers is the DeviceMemory itself: it lives as long as any of them. Any
// thread.
class DeviceMemory final : public SlabSource {
 public:
  DeviceMemory(std::shared_ptr<ProtectionDomain> domain, Access access,
               std::shared_ptr<Budget> budget)
      : domain_(std::move(domain)), access_(access), budget_(std::move(budget)) {}

  absl::StatusOr<Slab> Map(size_t bytes) override;
  void Unmap(const Slab& slab) override;
  // Regions that were made so far.
  uint64_t registrations() const { return registrations_.load(std::memory_order_relaxed); }

 private:
  // The smallest piece that is cut, and the largest: a slab above it has its own region.
  static constexpr size_t kSmallestPiece = size_t{64} << 10;
  static constexpr size_t kLargestPiece = size_t{1} << 20;
  static constexpr size_t kOrders = 5;  // of pieces: powers of two
  static_assert(kSmallestPiece << (kOrders - 1) == kLargestPiece);
  // Regions to cut begin small, for most connections need little, and grow to this.
  static constexpr size_t kLargestShared = size_t{4} << 20;

  struct Shared {
    std::unique_ptr<MemoryRegion> region;
    size_t leased = 0;  // pieces
    // Offsets of free pieces, by order.
    std::array<std::set<size_t>, kOrders> free;
  };

  absl::StatusOr<std::unique_ptr<MemoryRegion>> Make(size_t bytes);
  bool TakePiece(Shared& shared, size_t order, size_t& offset);
  static void ReturnPiece(Shared& shared, size_t order, size_t offset);
  Slab SlabAt(const MemoryRegion& region, size_t offset, size_t bytes) const;

  const std::shared_ptr<ProtectionDomain> domain_;
  const Access access_;
  const std::shared_ptr<Budget> budget_;
  std::atomic<uint64_t> registrations_{0};

  Mutex mutex_;
  std::map<const std::byte*, Shared> shared_ ABSL_GUARDED_BY(mutex_);  // by the region's first byte
  size_t next_shared_ ABSL_GUARDED_BY(mutex_) = kSmallestPiece;
};

// BufferSlot::region of memory of this room.
inline uint64_t RegionName(const MemoryRegion& region) {
  return reinterpret_cast<uintptr_t>(&region);
}
inline const MemoryRegion& RegionOf(uint64_t name) {
  return *reinterpret_cast<const MemoryRegion*>(name);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_DEVICE_MEMORY_H_
