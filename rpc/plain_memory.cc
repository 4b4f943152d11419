// PlainMemory: slabs of ordinary anonymous memory.

#include <sys/mman.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/buffer_pool.h"

namespace farcall {
namespace {

constexpr size_t kMapped = size_t{64} << 10;  // smaller ones come from the heap
constexpr size_t kHuge = size_t{4} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

absl::Status NoMemory(size_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the system has no ", bytes, " bytes of memory left"));
}

std::byte* MapPages(size_t bytes, int flags) {
  void* base =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
}

class PlainSource final : public SlabSource {
 public:
  absl::StatusOr<Slab> Map(size_t bytes) override {
    std::byte* base = nullptr;
    if (bytes < kMapped) {
      base = static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, bytes));
    } else {
      base = MapPages(bytes, 0);
      // A page fault for 2 MiB instead of 512: large payloads are mostly fresh pages.
      if (base != nullptr && bytes >= kHuge) ::madvise(base, bytes, MADV_HUGEPAGE);
    }
    if (base == nullptr) return NoMemory(bytes);
    return Slab{base, bytes, nullptr, 0};
  }

  void Unmap(const Slab& slab) override {
    if (slab.size < kMapped) {
      std::free(slab.base);
    } else {
      ::munmap(slab.base, slab.size);
    }
  }

  bool lazy() const override { return true; }

  absl::StatusOr<Slab> MapLazily(size_t bytes) override {
    if (bytes < kMapped) return Map(bytes);
    std::byte* base = MapPages(bytes, MAP_NORESERVE);
    if (base == nullptr) return NoMemory(bytes);
    // Where the system gives huge pages unasked, the first byte would take 2 MiB.
    ::madvise(base, bytes, MADV_NOHUGEPAGE);
    return Slab{base, bytes, nullptr, 0};
  }

  // Large steps fill huge pages; the kernel takes none beyond what was committed.
  void Commit(const Slab& slab, size_t from, size_t to) override {
    if (to - from >= kHugePage) ::madvise(slab.base + from, to - from, MADV_HUGEPAGE);
  }
};

}  // namespace

std::unique_ptr<SlabSource> PlainMemory() { return std::make_unique<PlainSource>(); }

}  // namespace farcall
