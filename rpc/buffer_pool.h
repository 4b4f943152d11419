// BufferPool: bounded memory in slots of a few sizes, handed out as Buffers.
//
// The pool cuts slots of power-of-two sizes (256 B to 32 MiB: a FlatBuffer around 16 MiB still has
// one) out of slabs that a SlabSource provides; a larger request gets a slab of its own. Free slots
// stay in the pool (up to `max_cached_bytes`) so that steady traffic allocates nothing from the
// system and touches warm pages: to map and unmap 1 GiB costs about as much as to fill it.
// GiveBackIdle ends that for large slots that nobody uses. Thread-safe; free lists are sharded by
// thread, and a slot freed by another thread goes home to its shard. The pool's core lives until
// its last Buffer is gone, even when the BufferPool went earlier.
//
// What counts against `max_bytes` is memory, not promises: a slot of AllocateLazily is charged as
// it is filled. A part of the pool is kept for small slots, so that large ones never starve them.

#ifndef FARCALL_RPC_BUFFER_POOL_H_
#define FARCALL_RPC_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "farcall/rpc/buffer.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/limits.h"

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

  // Whether MapLazily gives what takes memory only where Commit said that it is used. Memory that
  // is registered with a device cannot: the pool then maps, and charges, at once.
  virtual bool lazy() const { return false; }
  virtual absl::StatusOr<Slab> MapLazily(size_t bytes) { return Map(bytes); }
  // Bytes [from, to) of a slab of MapLazily are used from now on.
  virtual void Commit(const Slab& /*slab*/, size_t /*from*/, size_t /*to*/) {}
};

// Plain anonymous memory, large slabs by mmap.
std::unique_ptr<SlabSource> PlainMemory();

// Slots up to this are small: what a message without a large payload needs (rpc/transport.h).
inline constexpr size_t kMaxSmallSlot = kSmallPayloadBytes;

struct BufferPoolOptions {
  const char* name = "buffers";                         // said in errors: "<name> pool: …"
  const char* option = "BufferPoolOptions::max_bytes";  // what to raise, said in errors
  size_t max_bytes = size_t{4} << 30;                   // leased + cached; beyond it Allocate fails
  size_t small_bytes = 0;  // of max_bytes: for slots up to kMaxSmallSlot alone
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
  // RESOURCE_EXHAUSTED, the same, when not even an unused pool has so much.
  absl::Status CheckFits(uint64_t bytes) const;

  // The same for memory that somebody else promises to fill: above kMaxSmallSlot a slot that is not
  // warm yet is address space only, and Commit must be called before its bytes are touched.
  absl::StatusOr<Buffer> AllocateLazily(size_t bytes);
  // Makes the first `bytes` of the slot behind `buffer` usable and charges the pool for them: whole
  // pages, and the rest of the slot when the view's end is reached; beyond the first page at most
  // twice `bytes`. RESOURCE_EXHAUSTED as Allocate: what was usable before stays so. Memory of any
  // other origin is usable already: OK. Whoever holds the buffer calls it.
  static absl::Status Commit(const Buffer& buffer, size_t bytes);

  // Returns slots above kMaxSmallSlot to the system that have been free for kIdleTime, as far as
  // calls of this function saw. True: the pool has others, in use or free; call again in a while.
  // Any thread.
  static constexpr Duration kIdleTime = std::chrono::seconds(10);
  bool GiveBackIdle(TimePoint now);

  struct Stats {
    const char* name = "";     // as in the options
    size_t max_bytes = 0;      // likewise
    uint64_t allocations = 0;  // Allocate calls that succeeded
    uint64_t slab_maps = 0;    // times the SlabSource was asked
    size_t leased_bytes = 0;   // slot bytes out with users, as far as they are charged
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
