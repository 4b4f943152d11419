#include "farcall/rpc/hello.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"

namespace farcall {
namespace {

constexpr size_t kLimitsBytes = 32;
constexpr size_t kBodyAt = 0, kAttachmentAt = 8, kCallsAt = 16, kReservedAt = 20, kFeaturesAt = 24;
static_assert(kFeaturesAt + sizeof(uint64_t) == kLimitsBytes);

absl::Status DecodeLimits(std::string_view value, Hello& hello) {
  if (value.size() != kLimitsBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("HELLO: limits of ", value.size(), " bytes; they have ", kLimitsBytes));
  }
  const auto* at = reinterpret_cast<const std::byte*>(value.data());
  hello.max_body_bytes = LoadLittle<uint64_t>(at + kBodyAt);
  hello.max_attachment_bytes = LoadLittle<uint64_t>(at + kAttachmentAt);
  hello.max_calls_in_flight = LoadLittle<uint32_t>(at + kCallsAt);
  hello.features = LoadLittle<uint64_t>(at + kFeaturesAt);
  if (LoadLittle<uint32_t>(at + kReservedAt) != 0) {
    return absl::InvalidArgumentError("HELLO: the reserved word of the limits is not 0");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Head> EncodeHello(const Hello& hello, BufferPool& pool) {
  std::array<std::byte, kLimitsBytes> limits;
  StoreLittle(limits.data() + kBodyAt, hello.max_body_bytes);
  StoreLittle(limits.data() + kAttachmentAt, hello.max_attachment_bytes);
  StoreLittle(limits.data() + kCallsAt, hello.max_calls_in_flight);
  StoreLittle(limits.data() + kReservedAt, uint32_t{0});
  StoreLittle(limits.data() + kFeaturesAt, hello.features);

  HeadBuilder head(pool);
  absl::Status added = head.Add({FieldKind::kLimits, {}, AsView(limits)});
  for (const auto& [name, offer] : hello.offers) {
    if (added.ok()) added = head.Add({FieldKind::kOffer, name, offer});
  }
  if (added.ok() && !hello.authentication.empty()) {
    added = head.Add({FieldKind::kAuthentication, {}, hello.authentication});
  }
  if (added.ok() && !hello.token.empty()) {
    added = head.Add({FieldKind::kToken, {}, hello.token});
  }
  if (!added.ok()) return added;
  return head.Finish(
      {.type = FrameType::kHello,
       .sequence = hello.min_version | (static_cast<uint32_t>(hello.max_version) << 16),
       .method = kHelloMagic});
}

absl::StatusOr<Hello> DecodeHello(const FrameHeader& header, std::span<const std::byte> head) {
  if (header.type != FrameType::kHello || header.method != kHelloMagic) {
    return absl::InvalidArgumentError("the peer's first frame is not a HELLO of Farcall");
  }
  Hello hello;
  hello.min_version = static_cast<uint16_t>(header.sequence & 0xffff);
  hello.max_version = static_cast<uint16_t>(header.sequence >> 16);
  if (hello.min_version > kProtocolVersion || hello.max_version < kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no protocol version in common: the peer speaks ", hello.min_version, " to ",
        hello.max_version, ", this side ", kProtocolVersion, "; upgrade the older one"));
  }
  bool limits = false;
  FieldReader fields(head);
  for (Field field; fields.Next(field);) {
    switch (field.kind) {
      case FieldKind::kLimits:
        if (absl::Status status = DecodeLimits(field.value, hello); !status.ok()) return status;
        limits = true;
        break;
      case FieldKind::kOffer:
        hello.offers.emplace_back(field.key, field.value);
        break;
      case FieldKind::kAuthentication:
        hello.authentication = field.value;
        break;
      case FieldKind::kToken:
        if (field.value.empty() || field.value.size() > kMaxTokenBytes) {
          return absl::InvalidArgumentError(absl::StrCat("HELLO: a token of ", field.value.size(),
                                                         " bytes; it has 1 to ", kMaxTokenBytes));
        }
        hello.token = field.value;
        break;
      default:
        break;
    }
  }
  if (!limits) return absl::InvalidArgumentError("HELLO: it tells no limits");
  return hello;
}

}  // namespace farcall
