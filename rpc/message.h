// Message: what a transport moves, whole or not at all.
//
// A small head (frame header and metadata; rpc/frame.h) and two payload segments: the FlatBuffer
// body and an optional raw attachment. They are kept apart so that a transport can send the head at
// once and move the payload by another road. Lengths live in the transport's own prefix or
// envelope, never in the frame.

#ifndef FARCALL_RPC_MESSAGE_H_
#define FARCALL_RPC_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "farcall/rpc/buffer.h"
#include "farcall/rpc/limits.h"

namespace farcall {

// Largest head of any message, in bytes: small enough that a head always fits one eager slot of an
// RDMA connection, large enough for tokens and traces. A head beyond it is refused by both sides.
inline constexpr size_t kMaxHeadBytes = 4096;

// The head's bytes: in place up to kInlineBytes (a frame header and a little metadata), in a Buffer
// above. Move-only; a moved-from head is empty.
class Head {
 public:
  static constexpr size_t kInlineBytes = 64;

  Head() = default;
  Head(Head&& other) noexcept { *this = std::move(other); }
  Head& operator=(Head&& other) noexcept {
    if (this != &other) {
      size_ = std::exchange(other.size_, uint32_t{0});
      spill_ = std::move(other.spill_);
      if (!spill_) std::memcpy(inline_.data(), other.inline_.data(), kInlineBytes);
    }
    return *this;
  }

  // Makes the head `size` bytes long with undefined contents and returns them for writing. Above
  // kInlineBytes `spill` must hold at least `size` bytes of capacity and is kept.
  std::span<std::byte> Resize(size_t size, Buffer spill = {}) {
    size_ = static_cast<uint32_t>(size);
    spill_ = std::move(spill);
    if (spill_) spill_.SetView(0, size);
    return {data(), size};
  }

  // Another head of the same bytes. Those beyond kInlineBytes are shared: nobody may write to them.
  Head Share() const {
    Head other;
    other.size_ = size_;
    other.spill_ = spill_.Share();
    if (!spill_) std::memcpy(other.inline_.data(), inline_.data(), kInlineBytes);
    return other;
  }

  // What it may Grow to, and the memory that it holds besides itself.
  size_t capacity() const { return spill_ ? spill_.slot()->capacity : kInlineBytes; }
  size_t spilled_bytes() const { return spill_ ? spill_.slot()->capacity : 0; }

  // Lengthens the head within its capacity, keeping its bytes.
  void Grow(size_t size) {
    size_ = static_cast<uint32_t>(size);
    if (spill_) spill_.SetView(0, size);
  }

  std::byte* data() { return spill_ ? spill_.data() : inline_.data(); }
  const std::byte* data() const { return spill_ ? spill_.data() : inline_.data(); }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data(), size_}; }

 private:
  uint32_t size_ = 0;
  Buffer spill_;
  alignas(8) std::array<std::byte, kInlineBytes> inline_;
};

// The memory behind `buffer`: of a small slot the whole, whatever part of it is used; the unused
// pages of a large one were never touched.
inline size_t HeldBytes(const Buffer& buffer) {
  if (!buffer) return 0;
  const size_t capacity = buffer.slot()->capacity;
  return capacity <= kSmallPayloadBytes ? capacity : buffer.size();
}

struct Message {
  Head head;
  Buffer body;        // may be absent: then its size is 0
  Buffer attachment;  // likewise

  size_t payload_bytes() const { return body.size() + attachment.size(); }
  // The memory behind all of it.
  size_t held_bytes() const {
    return head.spilled_bytes() + HeldBytes(body) + HeldBytes(attachment);
  }
};

// Lengths of a message that is announced but not yet here, as the peer claims them: hostile until
// checked.
struct MessageSizes {
  uint64_t body = 0;
  uint64_t attachment = 0;
};

}  // namespace farcall

#endif  // FARCALL_RPC_MESSAGE_H_
