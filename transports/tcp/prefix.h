// The preamble and the 24-byte record prefix of the TCP wire (wire_format.md). Pure: no I/O, no
// state.

#ifndef FARCALL_TRANSPORTS_TCP_PREFIX_H_
#define FARCALL_TRANSPORTS_TCP_PREFIX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "farcall/transports/tcp/limits.h"

namespace farcall::tcp {

enum class RecordKind : uint8_t {
  kMessage = 1,
  kBegin = 2,
  kChunk = 3,
  kAbort = 4,
  kAbandon = 5,
};

// A prefix taken apart. Which fields mean something depends on the kind; the others are 0.
struct Prefix {
  RecordKind kind = RecordKind::kMessage;
  uint16_t head = 0;        // MESSAGE, BEGIN: bytes
  uint32_t transfer = 0;    // all but MESSAGE; never 0
  uint64_t body = 0;        // MESSAGE, BEGIN: bytes
  uint64_t attachment = 0;  // MESSAGE, BEGIN: bytes
  uint64_t offset = 0;      // CHUNK
  uint64_t length = 0;      // CHUNK: bytes

  uint64_t payload() const { return body + attachment; }
};

using PrefixBytes = std::array<std::byte, kPrefixBytes>;
static_assert(sizeof(PrefixBytes) == 24);

void EncodePrefix(const Prefix& prefix, std::span<std::byte, kPrefixBytes> out);

// Takes a prefix apart and checks every rule that needs no memory of earlier records, so that no
// number in `prefix` is beyond its limit and body + attachment does not overflow.
// INVALID_ARGUMENT names the rule that was broken and the number that broke it.
absl::Status DecodePrefix(std::span<const std::byte, kPrefixBytes> bytes, Prefix& prefix);

// Both sides' first bytes.
std::array<std::byte, kPreambleBytes> Preamble();

// Checks the first bytes that came from a peer; `bytes` may be the beginning of them only (at most
// kPreambleBytes are looked at), so that a stranger is noticed by its first wrong byte.
// FAILED_PRECONDITION: another version; INVALID_ARGUMENT: not Farcall, and what it looks like.
absl::Status CheckPreamble(std::span<const std::byte> bytes);

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_PREFIX_H_
