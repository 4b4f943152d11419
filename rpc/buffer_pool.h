// BufferPool: bounded memory in slots of a few sizes, handed out as Buffers.
//
// The pool cuts slots of power-of-two sizes (256 B to 32 MiB: a FlatBuffer around 16 MiB still has
// one) out of slabs that a SlabSource provides; a larger request gets a slab of its own, returned
// at release. Free slots stay in the pool (up to `max_cached_bytes`) so that steady traffic
// allocates nothing from the system and touches warm pages. Thread-safe; free lists are sharded by
// thread, and a slot freed by another thread goes home to its shard. The pool's core lives until
// its last Buffer is gone, even when the BufferPool went earlier.

#ifndef FARCALL_RPC_BUFFER_POOL_H_
#define FARCALL_RPC_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "farcall/rpc/buffer.h"

namespace farcall {

// Where slabs come from: plain memory, registered memory, shared memory. Thread-safe.
class SlabSource {
 public:
  struct Slab {
    std::byte* base = nullptr;  // at least kBufferAlignment-aligned
    size_t size = 0;
    const void* domain = nullptr;
    uint64_t region = 0;
  };
  virtual ~SlabSource() = default;
  virtual absl::StatusOr<Slab> Map(size_t bytes) = 0;  // RESOURCE_EXHAUSTED when there is none
  virtual void Unmap(const Slab& slab) = 0;
};

// Plain anonymous memory, large slabs by mmap.
std::unique_ptr<SlabSource> PlainMemory();

struct BufferPoolOptions {
  const char* name = "buffers";        // said in errors: "<name> pool: …"
  size_t max_bytes = size_t{4} << 30;  // leased + cached; beyond it Allocate fails
  size_t max_cached_bytes = size_t{256} << 20;
};

class BufferPool {
 public:
  explicit BufferPool(BufferPoolOptions options = {},
                      std::unique_ptr<SlabSource> source = PlainMemory());
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A Buffer whose view is `bytes` long, in a slot of at least that capacity (0 gives the smallest
  // slot). The contents are undefined. RESOURCE_EXHAUSTED names the pool, its limit and the option.
  absl::StatusOr<Buffer> Allocate(size_t bytes);

  struct Stats {
    uint64_t allocations = 0;  // Allocate calls that succeeded
    uint64_t slab_maps = 0;    // times the SlabSource was asked
    size_t leased_bytes = 0;   // slot bytes out with users
    size_t cached_bytes = 0;   // slot bytes free in the pool
  };
  Stats stats() const;

 private:
  class Core;
  Core* core_;
};

// A copy of `bytes` in the pool's memory.
absl::StatusOr<Buffer> CopyToBuffer(BufferPool& pool, std::span<const std::byte> bytes);

}  // namespace farcall

#endif  // FARCALL_RPC_BUFFER_POOL_H_
