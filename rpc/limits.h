// Limits of the call layer, each with its reason. A transport has its own (TransportLimits).

#ifndef FARCALL_RPC_LIMITS_H_
#define FARCALL_RPC_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "farcall/rpc/clock.h"

namespace farcall {

// FlatBuffers' offsets are signed 32-bit numbers: no body can be larger, whatever the options say.
inline constexpr uint64_t kFlatBuffersMaxBytes = (uint64_t{1} << 31) - 64;

// What one side takes from a peer; told to the peer in HELLO.
struct MessageLimits {
  uint64_t max_body_bytes = uint64_t{1} << 30;  // at most kFlatBuffersMaxBytes
  uint64_t max_attachment_bytes = uint64_t{1} << 30;
  uint32_t max_calls_in_flight = 4096;  // served at once for one peer; more wait at the caller
  // FlatBuffers verification: how deep tables nest, and how many there are. A small message can
  // name the same table very often: without a bound its verification takes as long as its sender
  // likes.
  uint32_t max_table_depth = 64;
  uint32_t max_tables = 1'000'000;
};

// How one side keeps a connection honest.
struct KeepaliveOptions {
  Duration handshake_timeout = std::chrono::seconds(5);  // for the peer's HELLO
  Duration ping_after = std::chrono::seconds(10);        // of hearing nothing
  Duration ping_timeout = std::chrono::seconds(10);      // for anything to come back
};

}  // namespace farcall

#endif  // FARCALL_RPC_LIMITS_H_
