// Buffer: a move-only lease on memory that a transport can send from or receive into without a
// copy.
//
// A lease points at a Slot, which knows who owns the memory and how to give it back: a pool's slab
// (rpc/buffer_pool.h), or memory of the user's own. The holder of a Buffer is the only one who
// touches its bytes, but for those who share it: they all only read. A Buffer may be moved to and
// destroyed on any thread; it outlives the pool, connection and device that it came from.

#ifndef FARCALL_RPC_BUFFER_H_
#define FARCALL_RPC_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace farcall {

// FlatBuffers are built into and verified in memory of this alignment, so that a scalar of any size
// and a cache line both fall where the CPU wants them.
inline constexpr size_t kBufferAlignment = 64;

// What stands behind a Buffer. Owned by its provider; lives at least until `release` was called.
struct BufferSlot {
  std::byte* base = nullptr;  // kBufferAlignment-aligned for pool memory
  size_t capacity = 0;        // bytes from base; a multiple of kBufferAlignment for pool memory

  // Identity of the device domain that may send these bytes without a copy (nullptr: plain memory),
  // and that device's name for the region (a local key). Opaque to everyone but the transport.
  const void* domain = nullptr;
  uint64_t region = 0;

  // Gives the memory back. Called once, on any thread, when nobody holds a lease any more.
  void (*release)(BufferSlot*) = nullptr;

  // Buffers that hold it, while there is one. Theirs to count.
  std::atomic<uint32_t> leases{1};
};

class Buffer {
 public:
  Buffer() = default;

  // Takes over the lease on `slot`; the view is its first `size` bytes (size <= slot->capacity).
  Buffer(BufferSlot* slot, size_t size) : slot_(slot), data_(slot->base), size_(size) {}

  Buffer(Buffer&& other) noexcept
      : slot_(std::exchange(other.slot_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      Reset();
      slot_ = std::exchange(other.slot_, nullptr);
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~Buffer() { Reset(); }

  // Gives the memory back now, if nobody shares it; the Buffer is empty afterwards.
  void Reset() {
    if (slot_ != nullptr) {
      BufferSlot* slot = std::exchange(slot_, nullptr);
      if (WasLast(*slot)) slot->release(slot);
    }
    data_ = nullptr;
    size_ = 0;
  }

  // Another lease on the same bytes, for which nobody may write from now on; empty for an empty
  // one. Costs no locked instruction while nobody else shares them.
  Buffer Share() const {
    Buffer other;
    if (slot_ == nullptr) return other;
    if (slot_->leases.load(std::memory_order_acquire) == 1) {
      slot_->leases.store(2, std::memory_order_relaxed);
    } else {
      slot_->leases.fetch_add(1, std::memory_order_relaxed);
    }
    other.slot_ = slot_;
    other.data_ = data_;
    other.size_ = size_;
    return other;
  }

  // True when a lease is held (its view may still be of zero bytes).
  explicit operator bool() const { return slot_ != nullptr; }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }

  // Makes [offset, offset + size) of the slot the view, wherever the view was before.
  // Precondition: offset + size <= slot()->capacity.
  void SetView(size_t offset, size_t size) {
    data_ = slot_->base + offset;
    size_ = size;
  }

  const BufferSlot* slot() const { return slot_; }

 private:
  // Ends one lease. A count of one is the caller's own: nobody else changes it.
  static bool WasLast(BufferSlot& slot) {
    if (slot.leases.load(std::memory_order_acquire) == 1) return true;
    if (slot.leases.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
    slot.leases.store(1, std::memory_order_relaxed);  // for the next holder
    return true;
  }

  BufferSlot* slot_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A Buffer over the user's own memory, for sending an attachment without a copy. `release` is
// called exactly once, on any thread, when the last byte was sent or the message was dropped;
// `bytes` must stay readable and unchanged until then. One small allocation a call.
Buffer WrapBytes(std::span<const std::byte> bytes, void (*release)(void* argument), void* argument);

}  // namespace farcall

#endif  // FARCALL_RPC_BUFFER_H_
