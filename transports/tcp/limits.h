// Numbers of the TCP wire and of how this room works, each with its reason.

#ifndef FARCALL_TRANSPORTS_TCP_LIMITS_H_
#define FARCALL_TRANSPORTS_TCP_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "farcall/rpc/clock.h"
#include "farcall/rpc/limits.h"

namespace farcall::tcp {

// ---- the wire (wire_format.md); changing one is a new kWireVersion ----

inline constexpr uint8_t kWireVersion = 1;
inline constexpr size_t kPreambleBytes = 8;
inline constexpr size_t kPrefixBytes = 24;

// Payloads up to this travel inside their MESSAGE record and keep their order; larger ones go in
// chunks. It is the contract's bound for "small" (rpc/transport.h).
inline constexpr uint64_t kMaxInlinePayload = uint64_t{64} << 10;
static_assert(kMaxInlinePayload == kSmallPayloadBytes);

// The longest piece of a large payload.
inline constexpr uint64_t kMaxChunk = uint64_t{2} << 20;

// Large payloads on their way at once, each direction: bounds what a peer can make this side
// remember.
inline constexpr size_t kMaxTransfers = 1024;

// ---- this side alone ----

// One part in so many of a pool is for heads and small payloads alone, so that large payloads never
// starve small calls: 1 GiB of the default pools, 64 KiB for each of 16384 peers.
inline constexpr size_t kSmallShare = 4;

// Bodies up to this are copied out of the read buffer, larger ones are received where they stay.
inline constexpr uint64_t kCopyBytes = 4096;

// Shared by all connections of a loop. Large enough that a burst of small messages is one system
// call, small enough for the second-level cache.
inline constexpr size_t kReadBufferBytes = size_t{64} << 10;

// At most this many regions in one system call, two to four a message, and no new record beyond so
// many bytes.
inline constexpr size_t kMaxGather = 128;
inline constexpr size_t kMaxGatherBytes = size_t{1} << 20;

// Regions of so few bytes each on average, and together, are copied into one first: sendmsg costs
// 150 ns more than send, and some 15 ns a region.
inline constexpr size_t kJoinedRegionBytes = 256;
inline constexpr size_t kJoinedBytes = size_t{8} << 10;

// A large payload leaves in pieces of this size, one a system call. Each piece wakes the peer and
// ends in a segment that is not full: four pieces of 256 KiB made the round trip of 1 MiB 1.8 times
// as long as one piece of 1 MiB.
inline constexpr uint64_t kLongChunk = uint64_t{1} << 20;
// In pieces of this size while small messages are about, for a small one waits for the piece that
// is under way: at 5 GB/s for 25 us.
inline constexpr uint64_t kShortChunk = uint64_t{128} << 10;
// They are about until so many bytes of large payloads left after the last of them: some
// milliseconds.
inline constexpr uint64_t kCalmAfter = uint64_t{16} << 20;
// The last piece may be almost twice as long, so that none is a crumb.
static_assert(kMaxChunk >= 2 * kLongChunk && kLongChunk > kShortChunk);

// A flood of small messages fills batch after batch; then a chunk goes before the rest of it. Large
// payloads get a tenth of the wire at least.
inline constexpr int kMaxBatchesWithoutChunk = 2;

// Transfers take turns of so many bytes. One message's bytes stay together, and in the caches, as
// long as it is not much larger than others that wait.
inline constexpr uint64_t kTransferTurn = kLongChunk;

// So many messages leave without waiting for the end of the turn: the peer works on them while the
// next are built. Without it two sides with 64 calls in flight take turns, one idle while the other
// works, at half the rate; a system call for 16 messages costs each some 5 % of its own work.
inline constexpr size_t kMessagesBeforeFlush = 16;

// What one connection may read or write in one turn, a piece of a payload apart, before the others
// of its loop get theirs and what was read is answered.
inline constexpr size_t kBytesPerTurn = size_t{128} << 10;
inline constexpr size_t kCallsPerTurn = 16;

// A spinning loop polls this many sockets directly (a system call each, about 0.3 us); the others
// it hears of through epoll.
inline constexpr size_t kMaxHotSockets = 4;

// After so many polls that found nothing (some 20 us) a spinning thread offers its core to others
// of it. The kernel passes packets on in a thread of its own (ksoftirqd) when a clock tick comes in
// between; on the core of a thread that spins, packets would wait for the next tick, 4 ms.
inline constexpr uint32_t kPollsPerYield = 32;

// A directly polled socket that had nothing for this long goes back to epoll.
inline constexpr Duration kHotIdle = std::chrono::milliseconds(2);

// After Close the socket is drained this long, so that the peer gets what was sent last: closing
// with unread bytes makes the kernel send a reset, which destroys them at the peer.
inline constexpr Duration kLinger = std::chrono::seconds(1);

// How long accepting pauses when the process has no descriptor or memory left.
inline constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

// Send records kept for reuse by a loop (about 350 bytes each).
inline constexpr size_t kMaxSpareOutgoing = 256;

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_LIMITS_H_
