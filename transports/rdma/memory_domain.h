// MemoryDomain: a protection domain and the memory in it that messages are sent from and received
// into: that of one connection, or, with RdmaIsolation::kShared, of all connections of a transport.
//
// Lives as long as a connection that uses it; the pools as long as any of their buffers. Any
// thread.

#ifndef FARCALL_TRANSPORTS_RDMA_MEMORY_DOMAIN_H_
#define FARCALL_TRANSPORTS_RDMA_MEMORY_DOMAIN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/mutex.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/device_memory.h"
#include "farcall/transports/rdma/rdma.h"
#include "farcall/transports/rdma/user_regions.h"

namespace farcall::rdma {

class MemoryDomain {
 public:
  struct Budgets {
    std::shared_ptr<Budget> send, receive;
  };
  static absl::StatusOr<std::shared_ptr<MemoryDomain>> Create(Device& device,
                                                              const RdmaOptions& options,
                                                              const Budgets& budgets);
  MemoryDomain(std::shared_ptr<ProtectionDomain> domain, const Capabilities& can,
               const RdmaOptions& options, const Budgets& budgets);

  const std::shared_ptr<ProtectionDomain>& domain() const { return domain_; }
  // Peers read through windows only.
  bool windows() const { return windows_; }

  const std::shared_ptr<BufferPool>& send_pool() const { return send_pool_; }
  const std::shared_ptr<BufferPool>& receive_pool() const { return receive_pool_; }
  // BufferSlot::domain of the two: what a peer can read, and what READs can write to.
  const DeviceMemory* send_memory() const { return send_memory_; }
  const DeviceMemory* receive_memory() const { return receive_memory_; }
  // The user's own memory: for READs to write to and for this side to send from, and for the peer
  // to read (Capabilities::remote_read_anywhere).
  UserRegions& local_regions() { return local_regions_; }
  UserRegions& readable_regions() { return readable_regions_; }

  uint64_t registrations() const;

 private:
  const std::shared_ptr<ProtectionDomain> domain_;
  const bool windows_;
  std::shared_ptr<BufferPool> send_pool_, receive_pool_;
  const DeviceMemory* send_memory_ = nullptr;
  const DeviceMemory* receive_memory_ = nullptr;
  UserRegions local_regions_, readable_regions_;
};

// The one that all connections share while there are any. Any thread.
class SharedMemoryDomain {
 public:
  absl::StatusOr<std::shared_ptr<MemoryDomain>> Get(Device& device, const RdmaOptions& options,
                                                    const MemoryDomain::Budgets& budgets);
  // None while there is no connection.
  std::vector<std::shared_ptr<BufferPool>> pools() const;

 private:
  mutable Mutex mutex_;
  std::weak_ptr<MemoryDomain> domain_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_MEMORY_DOMAIN_H_
