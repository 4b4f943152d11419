// The sizes of the software NIC, and why.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_LIMITS_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace farcall::softnic {

// A slot of the message ring: a header and what is sent inline. A small call with its frame and
// envelope fits, so that it costs the transfer of two or three cache lines and nothing else.
inline constexpr size_t kSlotBytes = 256;
inline constexpr size_t kSlotHeaderBytes = 16;
inline constexpr size_t kSlotPayloadBytes = kSlotBytes - kSlotHeaderBytes;

// Of the send queue, and so of the ring: bounds what a peer can make us map.
inline constexpr uint32_t kMaxQueueDepth = 8192;
inline constexpr uint32_t kMaxCompletionDepth = uint32_t{1} << 22;

// Where payloads beyond a slot lie. A power of two; a message is at most half of it, so that it
// always finds a place without a seam once the ring is empty.
inline constexpr size_t kMinArenaBytes = size_t{16} << 10;
inline constexpr size_t kMaxArenaBytes = size_t{64} << 20;

// Entries of a protection domain's key table: half of a key is the index, half its generation.
inline constexpr uint32_t kMaxKeys = uint32_t{1} << 16;

// As much as rdma_cm carries on InfiniBand in a request: what fits here fits everywhere.
inline constexpr size_t kMaxPrivateData = 56;
inline constexpr uint32_t kMaxReadDepth = 128;  // as the larger adapters have

// Of a READ that is copied in one go. A longer one goes on in the next Poll, so that messages are
// not held up.
inline constexpr size_t kReadPieceBytes = size_t{256} << 10;
inline constexpr uint32_t kMaxMessagesPerPoll = 64;  // of one queue pair, for the sake of others

// How long a message waits for a receive, each retry of the peer's.
inline constexpr std::chrono::microseconds kRnrTimer{640};

// Connections that have not said what they want: more, or older ones, are dropped.
inline constexpr size_t kMaxPendingHandshakes = 128;
inline constexpr std::chrono::seconds kHandshakeTime{3};

// Packets that are read from a control socket in one go, and how often that empties it: the kernel
// lets some 300 small ones wait there by default.
inline constexpr uint32_t kPacketsPerRead = 64;
inline constexpr uint32_t kSocketReads = 16;
// How long a READ waits for the notice of its memory, when the peer has made some that did not
// come.
inline constexpr std::chrono::seconds kNoticeTime{3};

inline constexpr size_t kSlabsPerPacket = 32;    // file descriptors in one packet
inline constexpr size_t kMaxPeerSlabs = 65'536;  // mappings of one connection: the kernel's default

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_LIMITS_H_
