// Memory between processes: written by the one that made it, mapped read-only by others.
//
// A memfd, sealed once it is mapped: nobody can map it for writing any more, also not through
// /proc, nor change its size. So a peer can neither write what is ours nor take its own memory away
// under our eyes (SIGBUS); it can only change what it wrote.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_SHARED_MEMORY_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_SHARED_MEMORY_H_

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "farcall/transports/rdma/fork_guard.h"
#include "farcall/transports/rdma/softnic/file_descriptor.h"

namespace farcall::softnic {

// A mapping that ends with the object. Not inherited by a child of fork.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* base, size_t size);
  ~Mapping();
  Mapping(Mapping&& other) noexcept
      : guard_(other.guard_),
        base_(std::exchange(other.base_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(guard_, other.guard_);
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* base() const { return static_cast<std::byte*>(base_); }
  size_t size() const { return size_; }

 private:
  rdma::ForkGuard guard_;
  void* base_ = nullptr;
  size_t size_ = 0;
};

// Private memory, zeroed. RESOURCE_EXHAUSTED.
absl::StatusOr<Mapping> MapPrivate(size_t bytes);

class OwnMemory {
 public:
  // Zeroed; `bytes` is rounded up to pages. `name` is what /proc shows. RESOURCE_EXHAUSTED names
  // the size and what is short.
  static absl::StatusOr<OwnMemory> Create(const char* name, size_t bytes);

  std::byte* base() const { return mapping_.base(); }
  size_t size() const { return mapping_.size(); }
  int fd() const { return fd_.get(); }
  // Nobody else will get it.
  void CloseDescriptor() { fd_.Close(); }

 private:
  OwnMemory(FileDescriptor fd, Mapping mapping)
      : fd_(std::move(fd)), mapping_(std::move(mapping)) {}

  FileDescriptor fd_;
  Mapping mapping_;
};

class PeerMemory {
 public:
  // Maps what a peer sent, `bytes` of it. PERMISSION_DENIED: not sealed memory of that size.
  static absl::StatusOr<PeerMemory> Map(const FileDescriptor& fd, size_t bytes);

  const std::byte* base() const { return mapping_.base(); }
  size_t size() const { return mapping_.size(); }

 private:
  explicit PeerMemory(Mapping mapping) : mapping_(std::move(mapping)) {}

  Mapping mapping_;
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_SHARED_MEMORY_H_
