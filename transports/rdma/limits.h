// Numbers of the RDMA wire and of how the protocol works, each with its reason.

#ifndef FARCALL_TRANSPORTS_RDMA_LIMITS_H_
#define FARCALL_TRANSPORTS_RDMA_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "farcall/rpc/clock.h"
#include "farcall/rpc/limits.h"
#include "farcall/rpc/message.h"

namespace farcall::rdma {

// ---- the wire (wire_format.md); changing one is a new kWireVersion ----

inline constexpr uint8_t kWireVersion = 1;

// What each side tells of itself in the private data of the connection. rdma_cm leaves 56 bytes of
// a connect request to its users.
inline constexpr size_t kParametersBytes = 32;
static_assert(kParametersBytes <= 56);

// With the 32 bytes of a frame's header behind it the body begins at 64, without padding.
inline constexpr size_t kEnvelopeBytes = 32;
// What an RTS has behind its envelope: where the payload is.
inline constexpr size_t kOfferBytes = 24;

// Receive buffers of a connection. With fewer than four there are states in which both sides wait
// for credits for ever (tests/transports/rdma/credits_model_test.cc). Counters are compared modulo
// 2^32, and no device has more work requests than this in a queue.
inline constexpr uint32_t kMinReceiveDepth = 4;
inline constexpr uint32_t kMaxReceiveDepth = 1 << 15;

// A receive buffer has room for an RTS with the largest head; whatever fits a buffer whole travels
// eagerly, so that one of 1 MiB would be a copy of what READ does better.
inline constexpr uint32_t kMinReceiveBytes = 4160;
inline constexpr uint32_t kMaxReceiveBytes = 1 << 20;
static_assert(kMinReceiveBytes % kBufferAlignment == 0);
static_assert(kMinReceiveBytes >= kEnvelopeBytes + kOfferBytes + kMaxHeadBytes);

// Transfers of one direction that a side may allow to be open.
inline constexpr uint32_t kMaxTransfers = 1 << 16;

// ---- this side alone ----

// 64 calls under way, a usual limit, and some for what lies between a receive and the news of it.
inline constexpr uint32_t kDefaultReceiveDepth = 80;
inline constexpr uint32_t kDefaultReceiveBytes = 8 << 10;
inline constexpr uint32_t kDefaultTransfers = 1024;  // as TransportLimits::max_transfers

// A READ asks for this much: large enough that its fixed cost is lost in the noise, small enough
// that what comes after it does not wait long (at 10 GB/s, 26 us).
inline constexpr uint32_t kDefaultChunk = 256 << 10;
// Payloads beyond small ones are medium up to this, and long beyond: medium ones never wait for the
// whole of a long one, which takes a memcpy of 16 MiB more than a millisecond.
inline constexpr uint64_t kMaxMediumPayload = uint64_t{2} << 20;
// Medium payloads begin one after the other, the next when less than this of the ones before is
// still to come. So few have memory at once, and it is used again while it is in the cache: 1 MiB
// payloads, eight at once, arrive 1.3 to 1.4 times as fast as when all of them are read side by
// side. It is as much as a link of 400 Gbit/s carries in 40 us; and READs of this much are posted
// before the FIN of a payload is, behind which a software NIC completes nothing until the peer
// has looked.
inline constexpr uint64_t kReadAhead = uint64_t{2} << 20;
// A long payload is read up to this much before the next long one begins. Read side by side, they
// would all arrive at the end, and their sender would have nothing to do until then. What is longer
// than a slot of a pool takes turns.
inline constexpr uint64_t kFirstTurnBytes = uint64_t{32} << 20;
// A payload that the peer cannot read where it lies is copied first, this much a turn: between two
// pieces the connection hears its peer. A software NIC of the peer's completes no READ posted
// behind a FIN before we took that FIN, and both would stand still in turn.
inline constexpr size_t kCopyBytes = size_t{256} << 10;
// What any device reads in one go.
inline constexpr uint32_t kMaxChunk = uint32_t{1} << 30;

// Slots of a connection's send queue: its SENDs, READs, BINDs and invalidations that have not
// completed. With the default receive depth of the peer, credits run out first, for all but
// the last kSignalInterval are known to have completed.
inline constexpr uint32_t kSendDepth = 128;
// At least one in so many requests asks for a completion, and so gives their slots back: rarely
// enough to cost nothing, early enough that the queue is never full of silent ones.
inline constexpr uint32_t kSignalInterval = 32;
static_assert(kSignalInterval <= kSendDepth / 4);
static_assert(kDefaultReceiveDepth + kSignalInterval <= kSendDepth);

// Requests that are posted with one doorbell: enough that its cost does not count, and few enough
// that they stay in the nearest cache and the peer does not wait long for the first.
inline constexpr size_t kMaxBatch = 16;

// In front of each slot, for the envelope and a small head; or for all of a small message.
inline constexpr size_t kFrontBytes = 256;
static_assert(kFrontBytes >= kEnvelopeBytes + kOfferBytes + Head::kInlineBytes);
static_assert(kFrontBytes % kBufferAlignment == 0);

// Asked for; a device grants what it can. A small call with its envelope fits.
inline constexpr uint32_t kMaxInline = 256;
static_assert(kMaxInline <= kFrontBytes);

// Receive buffers beyond those that are posted, as a part of them: one in four may be with
// handlers, whose messages are copied out beyond that.
inline constexpr uint32_t kSpareShare = 4;

// Connections that share a completion queue, which has room for all their requests from the start.
inline constexpr uint32_t kConnectionsPerQueue = 8;
// Taken from a completion queue at once: what one poll does before others get their turn.
inline constexpr size_t kCompletionsPerPoll = 32;
// Connection events handled in one go, likewise.
inline constexpr int kEventsPerTurn = 64;
// A completion queue that overran is dead and silent: it is asked once in so many empty polls.
inline constexpr uint32_t kPollsPerCheck = 1024;

// Windows of a connection, and so payloads that are offered through them at once. A window is a key
// of the device.
inline constexpr uint32_t kMaxWindows = 512;

// How often a connection that waits for memory looks for it, and for payloads that were given up
// too long ago.
inline constexpr Duration kMemoryRetry = std::chrono::milliseconds(2);
inline constexpr Duration kZombieCheck = std::chrono::milliseconds(500);

// After Close what was sent is awaited for so long: a peer that does not read does not hold it up.
inline constexpr Duration kLinger = std::chrono::seconds(1);

// Connections of a loop that were accepted, closed at once, and are there still because their peers
// said nothing yet. One more is gone at once, and its peer is not told why.
inline constexpr size_t kMaxSilentPeers = 256;

// Of a refusal that is told to the peer: private data of any connection manager holds as much.
inline constexpr size_t kMaxReasonBytes = 56;

// A connection that was accepted and of which the peer says nothing more is dropped.
inline constexpr Duration kAcceptTimeout = std::chrono::seconds(5);
// More of those at once are refused: each has its receives posted.
inline constexpr size_t kMaxPendingAccepts = 256;

// One part in so many of a pool is for small messages alone, as everywhere.
inline constexpr size_t kSmallShare = 4;
// Idle memory of a connection that stays with it. Large slots that nobody used for a while go back
// to the system all the same (rpc/idle_memory.h).
inline constexpr size_t kMaxCachedBytes = size_t{256} << 20;

// A payload that was given up while the peer may still read it stays in memory until the peer says
// that it is done. A peer that never says so must not make us hold more than this, or for longer:
// then the connection ends.
inline constexpr uint64_t kMaxZombieBytes = uint64_t{256} << 20;
inline constexpr Duration kMaxZombieAge = std::chrono::seconds(30);

// How long a payload waits for memory to be received into before it is given up.
inline constexpr Duration kMaxMemoryWait = std::chrono::seconds(2);

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_LIMITS_H_
