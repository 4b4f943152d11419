// Sizes of the loopback "wire", and why.

#ifndef FARCALL_TRANSPORTS_LOOPBACK_LIMITS_H_
#define FARCALL_TRANSPORTS_LOOPBACK_LIMITS_H_

#include <cstddef>

#include "farcall/rpc/limits.h"
#include "farcall/rpc/message.h"

namespace farcall::loopback {

// Payloads up to this arrive with their head, in order; it is the bound that rpc/transport.h names.
inline constexpr size_t kLargePayload = kSmallPayloadBytes;

// A large payload's step in one turn: what a small message waits for at most when the receiver
// wants a copy, some tens of microseconds.
inline constexpr size_t kChunkBytes = size_t{256} << 10;

// What the wire holds between two ends before the sender has to wait: the part of a socket's
// buffer. Without it a peer that does not read would gather messages without limit.
inline constexpr size_t kWireBytes = size_t{1} << 20;
inline constexpr size_t kWireMessages = 1024;

inline bool IsLarge(const Message& message) { return message.payload_bytes() > kLargePayload; }

}  // namespace farcall::loopback

#endif  // FARCALL_TRANSPORTS_LOOPBACK_LIMITS_H_
