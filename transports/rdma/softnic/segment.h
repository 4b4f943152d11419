// What two queue pairs share: one segment a side, written by its owner alone.
//
// A segment holds the ring of messages that its owner sends, and what its owner has to say about
// the peer's ring: how much of it was taken, and whether a doorbell is wanted. The peer maps it
// read-only. So nobody can write what another relies on; what is read from a peer's segment is
// copied once and then checked.
//
// A message lies in a slot, or, when it is longer than a slot, in the arena behind the slots; where
// there, both sides compute. A slot's sequence word is written last, and is never part of a
// payload, so that nothing in a payload can pass for a message.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_SEGMENT_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_SEGMENT_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/softnic/limits.h"

namespace farcall::softnic {

inline constexpr size_t kCacheLine = 64;

struct alignas(kCacheLine) Slot {
  std::atomic<uint32_t> sequence;  // the number of the message + 1, when it is there
  std::atomic<uint32_t> bytes;
  std::atomic<uint32_t> taken;  // how many messages of the peer's ring were taken when it was sent
  uint32_t reserved;
  std::byte payload[kSlotPayloadBytes];
};
static_assert(sizeof(Slot) == kSlotBytes);

struct SegmentHeader {
  // Messages of the peer's ring that were taken; above it, when it is not zero, why the next one
  // was not and none will be (a CompletionStatus).
  alignas(kCacheLine) std::atomic<uint64_t> taken;
  // Zero, or the number of this wish for a doorbell << 1; the lowest bit: also when `taken` moves.
  alignas(kCacheLine) std::atomic<uint32_t> armed;
  std::atomic<uint32_t> notices;  // of memory that came or went: made, and sent soon
};
static_assert(sizeof(SegmentHeader) == 2 * kCacheLine);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

inline constexpr uint64_t Taken(uint32_t count, rdma::CompletionStatus refusal) {
  return uint64_t{static_cast<uint8_t>(refusal)} << 32 | count;
}

struct Geometry {
  uint32_t slots = 0;
  uint32_t arena_bytes = 0;

  bool Valid() const {
    return std::has_single_bit(slots) && slots <= kMaxQueueDepth &&
           std::has_single_bit(arena_bytes) && arena_bytes >= kMinArenaBytes &&
           arena_bytes <= kMaxArenaBytes;
  }
  size_t bytes() const { return sizeof(SegmentHeader) + slots * sizeof(Slot) + arena_bytes; }
  uint32_t max_message() const { return arena_bytes / 2; }

  // Where a message of so many bytes begins when the arena was used up to `position` (both count
  // up for ever): whole cache lines, never across the arena's end.
  uint64_t Place(uint64_t position, uint32_t length) const {
    const uint64_t offset = position & (arena_bytes - 1);
    return offset + length <= arena_bytes ? position : position - offset + arena_bytes;
  }
  static uint64_t End(uint64_t place, uint32_t length) {
    return (place + length + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
};

// A segment, seen from one of its sides: `Byte` is const for the peer.
template <typename Byte, typename Header, typename Cell>
class SegmentView {
 public:
  SegmentView() = default;
  SegmentView(Byte* base, Geometry geometry) : base_(base), geometry_(geometry) {}

  const Geometry& geometry() const { return geometry_; }
  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  Cell& slot(uint32_t number) const {
    return reinterpret_cast<Cell*>(base_ + sizeof(SegmentHeader))[number & (geometry_.slots - 1)];
  }
  Byte* arena(uint64_t position) const {
    return base_ + sizeof(SegmentHeader) + geometry_.slots * sizeof(Slot) +
           (position & (geometry_.arena_bytes - 1));
  }

 private:
  Byte* base_ = nullptr;
  Geometry geometry_;
};
using OwnSegment = SegmentView<std::byte, SegmentHeader, Slot>;
using PeerSegment = SegmentView<const std::byte, const SegmentHeader, const Slot>;

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_SEGMENT_H_
