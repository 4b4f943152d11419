#include "farcall/transports/rdma/softnic/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farcall::softnic {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
constexpr size_t kPage = 4096;

absl::Status NoMemory(size_t bytes, const char* step) {
  return absl::ResourceExhaustedError(
      absl::StrCat("softnic: no shared memory of ", bytes, " bytes: ", step, ": ",
                   std::strerror(errno), "; look at the limits of memory and of open files"));
}

}  // namespace

Mapping::Mapping(void* base, size_t size) : base_(base), size_(size) {
  ::madvise(base, size, MADV_DONTFORK);
}

Mapping::~Mapping() {
  if (base_ != nullptr && !guard_.inherited()) ::munmap(base_, size_);
}

absl::StatusOr<Mapping> MapPrivate(size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return NoMemory(bytes, "mmap");
  return Mapping(base, bytes);
}

absl::StatusOr<OwnMemory> OwnMemory::Create(const char* name, size_t bytes) {
  if (bytes == 0 || bytes > size_t{1} << 46) {
    return absl::InvalidArgumentError(absl::StrCat("softnic: shared memory of ", bytes, " bytes"));
  }
  bytes = (bytes + kPage - 1) / kPage * kPage;
  FileDescriptor fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return NoMemory(bytes, "memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return NoMemory(bytes, "ftruncate");
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return NoMemory(bytes, "mmap");
  Mapping mapping(base, bytes);
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return NoMemory(bytes, "sealing");
  return OwnMemory(std::move(fd), std::move(mapping));
}

absl::StatusOr<PeerMemory> PeerMemory::Map(const FileDescriptor& fd, size_t bytes) {
  // Only memory of tmpfs can be read without a page that fails to come: not huge pages, which run
  // out, and no file system that the peer answers for.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  struct statfs system {};
  struct stat file {};
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstatfs(fd.get(), &system) != 0 ||
      system.f_type != TMPFS_MAGIC || ::fstat(fd.get(), &file) != 0) {
    return absl::PermissionDeniedError("softnic: the peer's memory is not sealed");
  }
  if (bytes == 0 || file.st_size < 0 || static_cast<uint64_t>(file.st_size) < bytes) {
    return absl::PermissionDeniedError(absl::StrCat("softnic: the peer says ", bytes,
                                                    " bytes of memory and gives ", file.st_size));
  }
  void* base = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return NoMemory(bytes, "mapping the peer's");
  return PeerMemory(Mapping(base, bytes));
}

}  // namespace farcall::softnic
