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

inline constexpr uint32_t kDefaultReceiveDepth = 64;
inline constexpr uint32_t kDefaultReceiveBytes = 8 << 10;
inline constexpr uint32_t kDefaultTransfers = 1024;  // as TransportLimits::max_transfers

// A READ asks for this much: large enough that its fixed cost is lost in the noise, small enough
// that what comes after it does not wait long (at 10 GB/s, 26 us).
inline constexpr uint32_t kDefaultChunk = 256 << 10;

// A payload that was given up while the peer may still read it stays in memory until the peer says
// that it is done. A peer that never says so must not make us hold more than this, or for longer:
// then the connection ends.
inline constexpr uint64_t kMaxZombieBytes = uint64_t{256} << 20;
inline constexpr Duration kMaxZombieAge = std::chrono::seconds(30);

// How long a payload waits for memory to be received into before it is given up.
inline constexpr Duration kMaxMemoryWait = std::chrono::seconds(2);

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_LIMITS_H_
