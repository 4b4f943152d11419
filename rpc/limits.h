// Limits of the call layer, each with its reason. A transport has its own (TransportLimits).

#ifndef FARCALL_RPC_LIMITS_H_
#define FARCALL_RPC_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "farcall/rpc/clock.h"

namespace farcall {

// FlatBuffers' offsets are signed 32-bit numbers: no body can be larger, whatever the options say.
inline constexpr uint64_t kFlatBuffersMaxBytes = (uint64_t{1} << 31) - 64;

// A message of no more payload than this is small: it is never held back by what larger ones take
// up (rpc/transport.h draws the same line).
inline constexpr uint64_t kSmallPayloadBytes = uint64_t{64} << 10;

// What one side takes from a peer. The first three are told to the peer in HELLO.
struct MessageLimits {
  uint64_t max_body_bytes = uint64_t{1} << 30;  // at most kFlatBuffersMaxBytes
  uint64_t max_attachment_bytes = uint64_t{1} << 30;
  uint32_t max_calls_in_flight = 4096;  // served at once for one peer; more wait at the caller
  // FlatBuffers verification: how deep tables nest, and how many there are. A small message can
  // name the same table very often: without a bound its verification takes as long as its sender
  // likes.
  uint32_t max_table_depth = 64;
  uint32_t max_tables = 1'000'000;
  // Server: what a request may take when it is unpacked for a handler that speaks flatc's object
  // API, at least twice its own bytes. Unpacking copies what a message shares, so that without a
  // bound 100 KB become a gigabyte. A handler that reads the FlatBuffer in place needs none.
  uint64_t max_unpacked_bytes = uint64_t{64} << 20;
  // Server: body and attachment bytes that the calls of one peer hold together, from their
  // announcement to their end. One larger request may come alone, small ones always. Half of the
  // TCP transport's receive pool: one peer must not take the memory of all.
  uint64_t max_held_request_bytes = uint64_t{2} << 30;
  // Replies that wait for a peer to read them: while there are more bytes of them, its new calls
  // are refused.
  uint64_t max_unread_reply_bytes = uint64_t{128} << 20;
  // Answers of any size (replies, refusals, PONGs) that wait likewise: one more ends the
  // connection. A peer that keeps to max_calls_in_flight and reads has half of that at worst.
  uint32_t max_unread_answers = 8192;
};

// How one side keeps a connection honest. What came while this process stood still counts as heard
// in time.
struct KeepaliveOptions {
  Duration handshake_timeout = std::chrono::seconds(5);  // for the peer's HELLO
  Duration ping_after = std::chrono::seconds(10);        // of hearing nothing
  Duration ping_timeout = std::chrono::seconds(10);      // for anything to come back
  // For a peer that sends but does not read to take something of what waits for it; looked at every
  // ping_after.
  Duration stall_timeout = std::chrono::seconds(30);
  // Server: a request must be whole after stall_timeout and the time that its payload takes at this
  // rate, or is refused, so that one that is announced but trickles in holds its memory for a
  // bounded time. 0: until its deadline.
  uint64_t min_bytes_per_second = uint64_t{1} << 20;
};

}  // namespace farcall

#endif  // FARCALL_RPC_LIMITS_H_
