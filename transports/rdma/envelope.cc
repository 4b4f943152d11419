#include "farcall/transports/rdma/envelope.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"

namespace farcall::rdma {
namespace {

constexpr std::string_view kMagic = "FARCALL";
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();
constexpr uint8_t kMaxStatusCode = 16;  // absl::StatusCode::kUnauthenticated

// Where the fields are, in bytes from the start of the private data …
constexpr size_t kVersionAt = 7;
constexpr size_t kDepthAt = 8;
constexpr size_t kBytesAt = 12;
constexpr size_t kTransfersAt = 16;
constexpr size_t kReservedAt = 20;
static_assert(kMagic.size() == kVersionAt);

// … of an envelope …
constexpr size_t kKindAt = 0;
constexpr size_t kStatusAt = 1;
constexpr size_t kHeadAt = 2;
constexpr size_t kRepostsAt = 4;
constexpr size_t kTransferAt = 8;
constexpr size_t kZeroAt = 12;
constexpr size_t kBodyAt = 16;
constexpr size_t kAttachmentAt = 24;
static_assert(kAttachmentAt + sizeof(uint64_t) == kEnvelopeBytes);

// … and of an RTS's offer, from the start of the envelope.
constexpr size_t kBodyAddressAt = 32;
constexpr size_t kAttachmentAddressAt = 40;
constexpr size_t kBodyKeyAt = 48;
constexpr size_t kAttachmentKeyAt = 52;
static_assert(kAttachmentKeyAt + sizeof(uint32_t) == kEnvelopeBytes + kOfferBytes);

ABSL_ATTRIBUTE_COLD absl::Status Broken(std::string_view rule, uint64_t number) {
  return absl::InvalidArgumentError(absl::StrCat(Absl(rule), ", not ", number));
}

absl::Status CheckRange(std::string_view name, uint32_t value, uint32_t low, uint32_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(Absl(name), " of a side is ", low, " to ", high, ", not ", value));
}

absl::Status CheckSizes(const Envelope& envelope) {
  if (envelope.head > kMaxHeadBytes) {
    return Broken(absl::StrCat("a head is at most ", kMaxHeadBytes, " bytes"), envelope.head);
  }
  if (envelope.sizes.attachment > kMax64 - envelope.sizes.body) {
    return Broken("body and attachment together fit 64 bits", envelope.sizes.attachment);
  }
  return absl::OkStatus();
}

absl::Status CheckRegion(std::string_view part, const Region& region, uint64_t size) {
  if (size == 0) {
    if (region == Region{}) return absl::OkStatus();
    return Broken(absl::StrCat("an RTS without ", Absl(part), " has 0 for its address and key"),
                  region.address != 0 ? region.address : region.rkey);
  }
  if (region.address > kMax64 - size) {
    return Broken(absl::StrCat("the end of the ", Absl(part), " that an RTS offers fits 64 bits"),
                  region.address);
  }
  return absl::OkStatus();
}

absl::Status CheckFields(const Envelope& envelope) {
  const bool has_head = envelope.kind == Kind::kMessage || envelope.kind == Kind::kRts;
  const bool has_transfer = envelope.kind != Kind::kMessage && envelope.kind != Kind::kCredit;
  if (has_transfer && envelope.transfer == 0) {
    return Broken("the transfer of an RTS, FIN or CANCEL is at least 1", 0);
  }
  if (!has_transfer && envelope.transfer != 0) {
    return Broken("the transfer of a MESSAGE or CREDIT is 0", envelope.transfer);
  }
  if (envelope.status > (envelope.kind == Kind::kFin ? kMaxStatusCode : 0)) {
    return Broken("the status of a FIN is 0 to 16 and of others 0", envelope.status);
  }
  if (has_head) return CheckSizes(envelope);
  if (envelope.head != 0) return Broken("only a MESSAGE or RTS has a head", envelope.head);
  if (envelope.sizes.body != 0 || envelope.sizes.attachment != 0) {
    return Broken("only a MESSAGE or RTS has a payload",
                  envelope.sizes.body != 0 ? envelope.sizes.body : envelope.sizes.attachment);
  }
  return absl::OkStatus();
}

absl::Status ReadOffer(std::span<const std::byte> received, Envelope& envelope) {
  if (envelope.payload() == 0) return Broken("the payload of an RTS is at least 1 byte", 0);
  if (received.size() < kEnvelopeBytes + kOfferBytes) {
    return Broken(absl::StrCat("an RTS has at least ", kEnvelopeBytes + kOfferBytes, " bytes"),
                  received.size());
  }
  envelope.body = {LoadLittle<uint64_t>(received.data() + kBodyAddressAt),
                   LoadLittle<uint32_t>(received.data() + kBodyKeyAt)};
  envelope.attachment = {LoadLittle<uint64_t>(received.data() + kAttachmentAddressAt),
                         LoadLittle<uint32_t>(received.data() + kAttachmentKeyAt)};
  if (absl::Status status = CheckRegion("body", envelope.body, envelope.sizes.body); !status.ok()) {
    return status;
  }
  return CheckRegion("attachment", envelope.attachment, envelope.sizes.attachment);
}

absl::Status CheckZero(std::span<const std::byte> padding) {
  const auto at = std::find_if(padding.begin(), padding.end(),
                               [](std::byte byte) { return byte != std::byte{0}; });
  if (at == padding.end()) return absl::OkStatus();
  return Broken("the bytes between two parts are 0", std::to_integer<uint64_t>(*at));
}

// The SEND is as long as its envelope says, and nothing is hidden between its parts.
absl::Status CheckLength(std::span<const std::byte> received, const Envelope& envelope) {
  const bool eager = envelope.kind == Kind::kMessage;
  // No sum overflows below: neither is longer than what was received.
  if (eager && envelope.payload() > received.size()) {
    return Broken(absl::StrCat("a SEND of ", received.size(), " bytes has no larger payload"),
                  envelope.payload());
  }
  const Layout layout = LayoutOf(envelope.kind, envelope.head, envelope.sizes);
  if (layout.end != received.size()) {
    return Broken(absl::StrCat("a SEND is as long as its envelope says, ", layout.end, " bytes"),
                  received.size());
  }
  if (!eager) return absl::OkStatus();
  const size_t head_end = layout.head + envelope.head;
  if (envelope.sizes.body != 0) {
    const auto gap = received.subspan(head_end, layout.body - head_end);
    if (absl::Status status = CheckZero(gap); !status.ok()) return status;
  }
  if (envelope.sizes.attachment == 0) return absl::OkStatus();
  const size_t from = envelope.sizes.body == 0 ? head_end : layout.body + envelope.sizes.body;
  return CheckZero(received.subspan(from, layout.attachment - from));
}

}  // namespace

ParametersBytes EncodeParameters(const Parameters& parameters) {
  ParametersBytes bytes{};
  for (size_t i = 0; i < kMagic.size(); ++i) bytes[i] = static_cast<std::byte>(kMagic[i]);
  bytes[kVersionAt] = std::byte{kWireVersion};
  StoreLittle(bytes.data() + kDepthAt, parameters.receive_depth);
  StoreLittle(bytes.data() + kBytesAt, parameters.receive_bytes);
  StoreLittle(bytes.data() + kTransfersAt, parameters.max_transfers);
  return bytes;
}

absl::Status DecodeParameters(std::span<const std::byte> bytes, Parameters& parameters) {
  if (bytes.size() < kParametersBytes) {
    return Broken(absl::StrCat("the private data of a Farcall connection has at least ",
                               kParametersBytes, " bytes"),
                  bytes.size());
  }
  if (AsView(bytes.first(kMagic.size())) != kMagic) {
    return absl::InvalidArgumentError("it does not speak Farcall: its private data is of another");
  }
  if (const auto version = LoadLittle<uint8_t>(bytes.data() + kVersionAt);
      version != kWireVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("it speaks version ", version, " of the Farcall RDMA wire, this side ",
                     kWireVersion, ": both need the same release"));
  }
  const auto reserved = bytes.subspan(kReservedAt, kParametersBytes - kReservedAt);
  if (!CheckZero(reserved).ok()) {
    return absl::InvalidArgumentError("the reserved bytes of the private data are 0");
  }
  parameters = {.receive_depth = LoadLittle<uint32_t>(bytes.data() + kDepthAt),
                .receive_bytes = LoadLittle<uint32_t>(bytes.data() + kBytesAt),
                .max_transfers = LoadLittle<uint32_t>(bytes.data() + kTransfersAt)};
  absl::Status status =
      CheckRange("the receive depth", parameters.receive_depth, kMinReceiveDepth, kMaxReceiveDepth);
  if (status.ok()) {
    status = CheckRange("the size of the receive buffers", parameters.receive_bytes,
                        kMinReceiveBytes, kMaxReceiveBytes);
  }
  if (status.ok()) {
    status = CheckRange("the number of transfers", parameters.max_transfers, 1, kMaxTransfers);
  }
  return status;
}

std::optional<Layout> EagerLayout(size_t head, MessageSizes sizes, uint32_t receive_bytes) {
  if (head > receive_bytes || sizes.body > receive_bytes || sizes.attachment > receive_bytes) {
    return std::nullopt;
  }
  const Layout layout = LayoutOf(Kind::kMessage, head, sizes);
  if (layout.end > receive_bytes) return std::nullopt;
  return layout;
}

void EncodeEnvelope(const Envelope& envelope, std::span<std::byte> out) {
  std::byte* const to = out.data();
  StoreLittle(to + kKindAt, static_cast<uint8_t>(envelope.kind));
  StoreLittle(to + kStatusAt, envelope.status);
  StoreLittle(to + kHeadAt, envelope.head);
  StoreLittle(to + kRepostsAt, envelope.reposts);
  StoreLittle(to + kTransferAt, envelope.transfer);
  StoreLittle(to + kZeroAt, uint32_t{0});
  StoreLittle(to + kBodyAt, envelope.sizes.body);
  StoreLittle(to + kAttachmentAt, envelope.sizes.attachment);
  if (envelope.kind != Kind::kRts) return;
  StoreLittle(to + kBodyAddressAt, envelope.body.address);
  StoreLittle(to + kAttachmentAddressAt, envelope.attachment.address);
  StoreLittle(to + kBodyKeyAt, envelope.body.rkey);
  StoreLittle(to + kAttachmentKeyAt, envelope.attachment.rkey);
}

absl::Status DecodeEnvelope(std::span<const std::byte> received, Envelope& envelope) {
  if (received.size() < kEnvelopeBytes) {
    return Broken(absl::StrCat("a SEND has at least ", kEnvelopeBytes, " bytes"), received.size());
  }
  const std::byte* const from = received.data();
  const auto kind = LoadLittle<uint8_t>(from + kKindAt);
  if (kind < static_cast<uint8_t>(Kind::kMessage) || kind > static_cast<uint8_t>(Kind::kCredit)) {
    return Broken("the kind of a SEND is 1 to 5", kind);
  }
  if (const auto zero = LoadLittle<uint32_t>(from + kZeroAt); zero != 0) {
    return Broken("the reserved bytes of an envelope are 0", zero);
  }
  envelope = Envelope{};
  envelope.kind = static_cast<Kind>(kind);
  envelope.status = LoadLittle<uint8_t>(from + kStatusAt);
  envelope.head = LoadLittle<uint16_t>(from + kHeadAt);
  envelope.reposts = LoadLittle<uint32_t>(from + kRepostsAt);
  envelope.transfer = LoadLittle<uint32_t>(from + kTransferAt);
  envelope.sizes.body = LoadLittle<uint64_t>(from + kBodyAt);
  envelope.sizes.attachment = LoadLittle<uint64_t>(from + kAttachmentAt);
  absl::Status status = CheckFields(envelope);
  if (status.ok() && envelope.kind == Kind::kRts) status = ReadOffer(received, envelope);
  if (status.ok()) status = CheckLength(received, envelope);
  return status;
}

}  // namespace farcall::rdma
