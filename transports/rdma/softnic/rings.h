// The two ends of a ring: what a queue pair sends, and what it takes from its peer.
//
// Outbound writes its own segment; Inbound reads the peer's. Neither knows requests, keys or
// states.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_RINGS_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_RINGS_H_

#include <cstdint>
#include <optional>

#include "farcall/transports/rdma/softnic/segment.h"

namespace farcall::softnic {

class Outbound {
 public:
  Outbound() = default;
  explicit Outbound(OwnSegment segment) : segment_(segment) {}

  OwnSegment& segment() { return segment_; }
  uint32_t sent() const { return sent_; }    // messages written
  uint32_t taken() const { return taken_; }  // by the peer, of those
  // Whether a message of so many bytes finds a place now. The caller has at most as many messages
  // on their way as there are slots.
  bool HasRoom(uint32_t bytes) const {
    if (bytes <= kSlotPayloadBytes) return true;
    const Geometry& geometry = segment_.geometry();
    return Geometry::End(geometry.Place(position_, bytes), bytes) - released_ <=
           geometry.arena_bytes;
  }
  // Where the next message's bytes go.
  std::byte* Begin(uint32_t bytes) {
    if (bytes <= kSlotPayloadBytes) return segment_.slot(sent_).payload;
    return segment_.arena(segment_.geometry().Place(position_, bytes));
  }
  // The message is written. Returns the arena's position behind it, for Release. It is the peer's
  // to see after Publish, or with the next Commit.
  uint64_t Commit(uint32_t bytes, uint32_t peer_messages_taken) {
    if (unpublished_ != nullptr) {
      unpublished_->sequence.store(sent_, std::memory_order_release);
    }
    Slot& slot = segment_.slot(sent_);
    slot.bytes.store(bytes, std::memory_order_relaxed);
    slot.taken.store(peer_messages_taken, std::memory_order_relaxed);
    unpublished_ = &slot;
    last_bytes_ = bytes;
    ++sent_;
    if (bytes > kSlotPayloadBytes) {
      position_ = Geometry::End(segment_.geometry().Place(position_, bytes), bytes);
    }
    return position_;
  }
  // True: there was something. What is loaded next is loaded after the peer can see it.
  bool Publish() {
    if (unpublished_ == nullptr) return false;
    unpublished_->sequence.store(sent_, std::memory_order_seq_cst);
    unpublished_ = nullptr;
    return true;
  }
  // Has the cache lines that one more message like the last will need brought here while nobody
  // waits for them. Not the first of its slot, at which the peer looks.
  void WarmNext() {
    if (last_bytes_ > kSlotPayloadBytes || sent_ - taken_ >= segment_.geometry().slots) return;
    std::byte* const payload = segment_.slot(sent_).payload;
    for (size_t at = kCacheLine - kSlotHeaderBytes; at < last_bytes_; at += kCacheLine) {
      payload[at] = std::byte{0};
    }
  }
  // The peer says how many it took. False: more than were sent.
  bool OnTaken(uint32_t count) {
    const auto more = static_cast<int32_t>(count - taken_);
    if (more <= 0) return true;  // said before
    if (more > static_cast<int32_t>(sent_ - taken_)) return false;
    taken_ = count;
    return true;
  }
  void Release(uint64_t position) { released_ = position; }

 private:
  OwnSegment segment_;
  uint32_t sent_ = 0, taken_ = 0;
  uint64_t position_ = 0, released_ = 0;  // of the arena, counting up for ever
  Slot* unpublished_ = nullptr;
  uint32_t last_bytes_ = 0;
};

class Inbound {
 public:
  struct Message {
    uint32_t bytes = 0;
    uint32_t taken = 0;
    const std::byte* payload = nullptr;  // of the peer's: copy, then look
  };

  Inbound() = default;
  explicit Inbound(PeerSegment segment) : segment_(segment) {}

  const PeerSegment& segment() const { return segment_; }
  uint32_t taken() const { return taken_; }
  bool Ready(std::memory_order order = std::memory_order_acquire) const {
    return segment_.slot(taken_).sequence.load(order) == taken_ + 1;
  }
  // It is Ready: has the rest of its cache lines come while its length is looked at.
  void Fetch() const {
    const std::byte* const payload = segment_.slot(taken_).payload;
    for (size_t at = kCacheLine - kSlotHeaderBytes; at < kSlotPayloadBytes; at += kCacheLine) {
      __builtin_prefetch(payload + at);
    }
  }
  // The word that tells Ready, and what it says then.
  const std::atomic<uint32_t>& Next(uint32_t& shows) const {
    shows = taken_ + 1;
    return segment_.slot(taken_).sequence;
  }
  // The message that is Ready. `bytes` may be more than max_message(): then it lies nowhere.
  Message Peek() const {
    const Slot& slot = segment_.slot(taken_);
    Message message{.bytes = slot.bytes.load(std::memory_order_relaxed),
                    .taken = slot.taken.load(std::memory_order_relaxed)};
    const Geometry& geometry = segment_.geometry();
    if (message.bytes <= kSlotPayloadBytes) {
      message.payload = slot.payload;
    } else if (message.bytes <= geometry.max_message()) {
      message.payload = segment_.arena(geometry.Place(position_, message.bytes));
    }
    return message;
  }
  void Take(const Message& message) {
    ++taken_;
    if (message.bytes > kSlotPayloadBytes) {
      position_ = Geometry::End(segment_.geometry().Place(position_, message.bytes), message.bytes);
    }
  }
  uint64_t position() const { return position_; }

 private:
  PeerSegment segment_;
  uint32_t taken_ = 0;
  uint64_t position_ = 0;
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_RINGS_H_
