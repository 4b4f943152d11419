// The parameters and the envelope of the RDMA wire (wire_format.md). Pure: no device, no state.

#ifndef FARCALL_TRANSPORTS_RDMA_ENVELOPE_H_
#define FARCALL_TRANSPORTS_RDMA_ENVELOPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "farcall/rpc/message.h"
#include "farcall/transports/rdma/limits.h"

namespace farcall::rdma {

// ---- the connection's private data ----

// What a side tells of itself before anything is sent.
struct Parameters {
  uint32_t receive_depth = kDefaultReceiveDepth;  // receives that it posted, each of …
  uint32_t receive_bytes = kDefaultReceiveBytes;
  uint32_t max_transfers = kDefaultTransfers;  // RTS that it takes without having answered by FIN

  friend bool operator==(const Parameters&, const Parameters&) = default;
};

using ParametersBytes = std::array<std::byte, kParametersBytes>;

ParametersBytes EncodeParameters(const Parameters& parameters);

// Takes a peer's private data apart. The connection manager pads it: bytes behind kParametersBytes
// are not looked at. FAILED_PRECONDITION: another version, or a peer that this side cannot live
// with, such as one with too few receives; INVALID_ARGUMENT: not Farcall, or a broken rule.
absl::Status DecodeParameters(std::span<const std::byte> bytes, Parameters& parameters);

// ---- what every SEND begins with ----

enum class Kind : uint8_t {
  kMessage = 1,
  kRts = 2,
  kFin = 3,
  kCancel = 4,
  kCredit = 5,
};

// A part of a payload, in memory of its sender that the receiver may read.
struct Region {
  uint64_t address = 0;
  uint32_t rkey = 0;

  friend bool operator==(const Region&, const Region&) = default;
};

// Which fields mean something depends on the kind; the others are 0.
struct Envelope {
  Kind kind = Kind::kCredit;
  uint32_t reposts = 0;     // receives that its sender posted again so far, modulo 2^32
  uint32_t transfer = 0;    // RTS, FIN, CANCEL: never 0
  uint8_t status = 0;       // FIN: an absl::StatusCode; OK: the payload was read whole
  uint16_t head = 0;        // MESSAGE, RTS: bytes
  MessageSizes sizes = {};  // MESSAGE, RTS: bytes
  Region body = {};         // RTS; {0, 0} where the size is 0
  Region attachment = {};   // likewise

  uint64_t payload() const { return sizes.body + sizes.attachment; }
  friend bool operator==(const Envelope& a, const Envelope& b) {
    return a.kind == b.kind && a.reposts == b.reposts && a.transfer == b.transfer &&
           a.status == b.status && a.head == b.head && a.sizes.body == b.sizes.body &&
           a.sizes.attachment == b.sizes.attachment && a.body == b.body &&
           a.attachment == b.attachment;
  }
};

// Where the parts of a SEND are, in bytes from its first: from the start of a receive buffer, which
// is kBufferAlignment-aligned, so that body and attachment are, too. What lies between two parts
// is 0.
struct Layout {
  size_t head = 0;
  size_t body = 0;        // where it would be, when there is none
  size_t attachment = 0;  // likewise
  size_t end = 0;         // bytes of the SEND
};

// The layout of a message, or of an RTS, whose payload is elsewhere.
// Precondition: head <= kMaxHeadBytes; for a MESSAGE: its payload is at most kMaxReceiveBytes.
constexpr Layout LayoutOf(Kind kind, size_t head, MessageSizes sizes) {
  const auto aligned = [](size_t at) {
    return (at + kBufferAlignment - 1) & ~(kBufferAlignment - 1);
  };
  Layout layout;
  layout.head = kind == Kind::kRts ? kEnvelopeBytes + kOfferBytes : kEnvelopeBytes;
  layout.end = layout.head + head;
  if (kind != Kind::kMessage) {
    layout.body = layout.attachment = layout.end;
    return layout;
  }
  layout.body = aligned(layout.end);
  if (sizes.body != 0) layout.end = layout.body + sizes.body;
  layout.attachment = aligned(layout.end);
  if (sizes.attachment != 0) layout.end = layout.attachment + sizes.attachment;
  return layout;
}

// The layout of a MESSAGE if it fits a receive buffer of `receive_bytes` (at most
// kMaxReceiveBytes). Any sizes.
std::optional<Layout> EagerLayout(size_t head, MessageSizes sizes, uint32_t receive_bytes);

// Writes the envelope and an RTS's offer: LayoutOf(…).head bytes, which `out` must have room for.
// Everything in front of the head; the rest of the SEND is the caller's to gather.
void EncodeEnvelope(const Envelope& envelope, std::span<std::byte> out);

// Takes apart a whole SEND as it was received and checks every rule that needs no memory of earlier
// ones: `received` is exactly LayoutOf(…).end bytes long, no number in `envelope` is beyond its
// limit, and no sum of sizes and addresses overflows.
// INVALID_ARGUMENT names the rule that was broken and the number that broke it.
absl::Status DecodeEnvelope(std::span<const std::byte> received, Envelope& envelope);

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_ENVELOPE_H_
