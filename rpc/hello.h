// HELLO: what both sides tell each other first (rpc/wire_format.md).

#ifndef FARCALL_RPC_HELLO_H_
#define FARCALL_RPC_HELLO_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/rpc/frame.h"
#include "farcall/rpc/limits.h"

namespace farcall {

// Bits of Hello::features. A server: it has other paths, and answers who asks for them by OFFERS.
inline constexpr uint64_t kFeatureOffers = 1;

// Of the token of an offer.
inline constexpr size_t kMaxTokenBytes = 64;

struct Hello {
  uint16_t min_version = kProtocolVersion;
  uint16_t max_version = kProtocolVersion;
  uint64_t max_body_bytes = 0;
  uint64_t max_attachment_bytes = 0;
  uint32_t max_calls_in_flight = 0;
  uint64_t features = 0;
  // Opaque to rpc: other ways to reach this peer, by name, and what proves who it is.
  std::vector<std::pair<std::string, std::string>> offers;
  std::string authentication;
  std::string token;  // of an offer of the peer's, by which this connection came; empty: of none
};

absl::StatusOr<Head> EncodeHello(const Hello& hello, BufferPool& pool);

// Reads a HELLO whose header and fields were checked. INVALID_ARGUMENT: not a HELLO of Farcall,
// limits missing or absurd, a token that is too long. FAILED_PRECONDITION: no version in common
// (says both ranges).
absl::StatusOr<Hello> DecodeHello(const FrameHeader& header, std::span<const std::byte> head);

}  // namespace farcall

#endif  // FARCALL_RPC_HELLO_H_
