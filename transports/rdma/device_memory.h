// DeviceMemory: a pool's slabs as memory regions of one protection domain, within a budget that all
// connections of a transport share.

#ifndef FARCALL_TRANSPORTS_RDMA_DEVICE_MEMORY_H_
#define FARCALL_TRANSPORTS_RDMA_DEVICE_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "farcall/rpc/buffer_pool.h"
#include "farcall/transports/rdma/device.h"

namespace farcall::rdma {

// Bytes that may still be taken. Any thread.
class Budget {
 public:
  // `option`: what to raise, for errors.
  Budget(size_t bytes, const char* option) : bytes_(bytes), option_(option), left_(bytes) {}

  bool Take(size_t bytes);
  void Give(size_t bytes) { left_.fetch_add(bytes, std::memory_order_relaxed); }
  size_t bytes() const { return bytes_; }
  const char* option() const { return option_; }

 private:
  const size_t bytes_;
  const char* const option_;
  std::atomic<size_t> left_;
};

// The `domain` of its buffers is the DeviceMemory itself: it lives as long as any of them.
class DeviceMemory final : public SlabSource {
 public:
  DeviceMemory(std::shared_ptr<ProtectionDomain> domain, Access access,
               std::shared_ptr<Budget> budget)
      : domain_(std::move(domain)), access_(access), budget_(std::move(budget)) {}

  absl::StatusOr<Slab> Map(size_t bytes) override;
  void Unmap(const Slab& slab) override;

 private:
  const std::shared_ptr<ProtectionDomain> domain_;
  const Access access_;
  const std::shared_ptr<Budget> budget_;
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
