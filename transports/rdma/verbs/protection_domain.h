// Memory that an adapter knows: protection domains, regions, windows. Any thread.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_PROTECTION_DOMAIN_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_PROTECTION_DOMAIN_H_

#include <infiniband/verbs.h>

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/fork_guard.h"
#include "farcall/transports/rdma/verbs/adapter.h"

namespace farcall::verbs {

class DomainCore {
 public:
  DomainCore(std::shared_ptr<Adapter> adapter, ibv_pd* pd)
      : adapter_(std::move(adapter)), pd_(pd) {}
  ~DomainCore() {
    if (!inherited()) ibv_dealloc_pd(pd_);
  }
  DomainCore(const DomainCore&) = delete;
  DomainCore& operator=(const DomainCore&) = delete;

  Adapter& adapter() const { return *adapter_; }
  ibv_pd* get() const { return pd_; }
  bool inherited() const { return guard_.inherited(); }

 private:
  const rdma::ForkGuard guard_;
  const std::shared_ptr<Adapter> adapter_;
  ibv_pd* const pd_;
};

class Region : public rdma::MemoryRegion {
 public:
  // `own`: the memory was mapped for it.
  Region(std::shared_ptr<DomainCore> domain, ibv_mr* region, std::span<std::byte> memory,
         bool readable, bool own);
  ~Region() override;

  const DomainCore* domain() const { return domain_.get(); }
  ibv_mr* get() const { return region_; }

 private:
  const std::shared_ptr<DomainCore> domain_;
  ibv_mr* const region_;
  const bool own_;
};

class Window : public rdma::MemoryWindow {
 public:
  Window(std::shared_ptr<DomainCore> domain, ibv_mw* window)
      : domain_(std::move(domain)), window_(window) {}
  ~Window() override {
    if (!domain_->inherited()) ibv_dealloc_mw(window_);
  }

  uint32_t next_rkey() const override { return ibv_inc_rkey(window_->rkey); }
  ibv_mw* get() const { return window_; }
  // A BIND was posted. Providers compare the old key with the window's, and none of them changes it
  // after a BIND that was posted as a work request.
  void OnBound() { window_->rkey = next_rkey(); }

 private:
  const std::shared_ptr<DomainCore> domain_;
  ibv_mw* const window_;
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
  absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> Make(std::span<std::byte> memory,
                                                           rdma::Access access, bool own);

  const std::shared_ptr<DomainCore> core_;
};

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_PROTECTION_DOMAIN_H_
