// Protection domains, regions and windows of the software NIC.
//
// Memory that peers may read is a slab, sealed shared memory of its own, and is announced to every
// queue pair of the domain before its key can be offered. A peer sees the whole of a slab: that is
// why a domain should serve one connection.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_PROTECTION_DOMAIN_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_PROTECTION_DOMAIN_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "farcall/rpc/mutex.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/softnic/key_table.h"
#include "farcall/transports/rdma/softnic/link.h"
#include "farcall/transports/rdma/softnic/segment.h"
#include "farcall/transports/rdma/softnic/shared_memory.h"

namespace farcall::softnic {

// What a protection domain is while anything of it is in use. Any thread.
class DomainCore {
 public:
  DomainCore(std::unique_ptr<KeyTable> keys, bool windows)
      : keys_(std::move(keys)), windows_(windows) {}

  KeyTable& keys() { return *keys_; }
  bool windows() const { return windows_; }
  // In a child of fork: the shared tables are not there.
  bool inherited() const { return guard_.inherited(); }

  // `slab` was made: every attached peer gets it.
  void AddSlab(uint32_t key, const OwnMemory& slab);
  void RemoveSlab(uint32_t key);
  // From now on a queue pair's peer gets all slabs, old and new. `header` counts the notices and is
  // written until Detach.
  void Attach(Link& link, SegmentHeader& header);
  void Detach(Link& link);
  // Sends what the socket had no room for. A peer that stands still while memory comes and goes
  // hears of what is left of it when it goes on.
  void CatchUp(Link& link);

 private:
  struct Notice {
    PacketKind kind;  // kSlabs or kSlabGone
    uint32_t key;
  };
  struct Peer {
    Link* link;
    SegmentHeader* header;
    std::deque<Notice> unsent;
  };
  static void Tell(Peer& peer, Notice notice);
  void Send(Peer& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SendOne(Peer& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const rdma::ForkGuard guard_;
  const std::unique_ptr<KeyTable> keys_;
  const bool windows_;
  Mutex mutex_;
  std::map<uint32_t, const OwnMemory*> slabs_ ABSL_GUARDED_BY(mutex_);
  std::vector<Peer> peers_ ABSL_GUARDED_BY(mutex_);
};

class Region : public rdma::MemoryRegion {
 public:
  Region(std::shared_ptr<DomainCore> domain, uint32_t key, std::span<std::byte> memory,
         rdma::Access access, std::optional<Mapping> own, std::optional<OwnMemory> slab);
  ~Region() override;

  const DomainCore* domain() const { return domain_.get(); }
  bool bindable() const { return access_.bind && slab_.has_value(); }

 private:
  const std::shared_ptr<DomainCore> domain_;
  const rdma::Access access_;
  const std::optional<Mapping> private_;
  const std::optional<OwnMemory> slab_;
};

class Window : public rdma::MemoryWindow {
 public:
  Window(std::shared_ptr<DomainCore> domain, uint32_t key)
      : domain_(std::move(domain)), next_(key) {}
  ~Window() override;

  uint32_t next_rkey() const override { return next_; }
  const DomainCore* domain() const { return domain_.get(); }
  // When a BIND is posted; the key that it binds.
  uint32_t TakeKey();
  // When it is carried out. False: it is against the rules.
  bool Bind(uint32_t key, const Region& region, uint64_t address, uint64_t bytes);

 private:
  const std::shared_ptr<DomainCore> domain_;
  uint32_t next_;
  uint32_t bound_ = 0;
};

class Domain : public rdma::ProtectionDomain {
 public:
  explicit Domain(std::shared_ptr<DomainCore> core) : core_(std::move(core)) {}

  absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> Allocate(size_t bytes,
                                                               rdma::Access access) override;
  absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> Register(std::span<std::byte> memory,
                                                               rdma::Access access) override;
  absl::StatusOr<std::unique_ptr<rdma::MemoryWindow>> AllocateWindow() override;
  const std::shared_ptr<DomainCore>& core() const { return core_; }

 private:
  const std::shared_ptr<DomainCore> core_;
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_PROTECTION_DOMAIN_H_
