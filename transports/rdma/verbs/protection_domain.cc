#include "farcall/transports/rdma/verbs/protection_domain.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/verbs/errors.h"

namespace farcall::verbs {
namespace {

absl::Status Inherited() {
  return absl::FailedPreconditionError(
      "this protection domain belongs to the parent process; make another after fork");
}

int FlagsOf(rdma::Access access) {
  int flags = 0;
  // The peers may write only where this side may.
  if (access.local_write || access.remote_write) flags |= IBV_ACCESS_LOCAL_WRITE;
  if (access.remote_read) flags |= IBV_ACCESS_REMOTE_READ;
  if (access.remote_write) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (access.bind) flags |= IBV_ACCESS_MW_BIND;
  return flags;
}

}  // namespace

Region::Region(std::shared_ptr<DomainCore> domain, ibv_mr* region, std::span<std::byte> memory,
               bool readable, bool own)
    : MemoryRegion(memory, region->lkey, readable ? region->rkey : 0),
      domain_(std::move(domain)),
      region_(region),
      own_(own) {}

Region::~Region() {
  if (domain_->inherited()) return;
  ibv_dereg_mr(region_);
  if (own_) ::munmap(memory().data(), memory().size());
}

absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> Domain::Make(std::span<std::byte> memory,
                                                                 rdma::Access access, bool own) {
  ibv_mr* const region = ibv_reg_mr(core_->get(), memory.data(), memory.size(),
                                    static_cast<unsigned>(FlagsOf(access)));
  if (region == nullptr) return RegistrationError(core_->adapter().name(), memory.size(), errno);
  return std::make_unique<Region>(core_, region, memory, access.remote_read, own);
}

absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> Domain::Allocate(size_t bytes,
                                                                     rdma::Access access) {
  if (core_->inherited()) return Inherited();
  if (bytes == 0) return absl::InvalidArgumentError("a memory region of 0 bytes");
  void* const base =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a region of ", bytes, " bytes: ", std::strerror(errno)));
  }
  absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> region =
      Make(std::span(static_cast<std::byte*>(base), bytes), access, true);
  if (!region.ok()) ::munmap(base, bytes);
  return region;
}

absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> Domain::Register(std::span<std::byte> memory,
                                                                     rdma::Access access) {
  if (core_->inherited()) return Inherited();
  if (memory.empty()) return absl::InvalidArgumentError("a memory region of 0 bytes");
  return Make(memory, access, false);
}

absl::StatusOr<std::unique_ptr<rdma::MemoryWindow>> Domain::AllocateWindow() {
  if (core_->inherited()) return Inherited();
  const std::string& name = core_->adapter().name();
  if (!core_->adapter().capabilities().windows) {
    return absl::UnimplementedError(absl::StrCat(name, " has no type-2 memory windows"));
  }
  ibv_mw* const window = ibv_alloc_mw(core_->get(), IBV_MW_TYPE_2);
  if (window == nullptr) return SystemError(absl::StrCat(name, ": no memory window"), errno);
  return std::make_unique<Window>(core_, window);
}

}  // namespace farcall::verbs
