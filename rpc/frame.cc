#include "farcall/rpc/frame.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"

namespace farcall {
namespace {

constexpr size_t kTypeAt = 0, kFlagsAt = 1, kStatusAt = 2, kSequenceAt = 4, kCallAt = 8,
                 kMethodAt = 16, kTimeoutAt = 24;
static_assert(kTimeoutAt + sizeof(uint64_t) == kFrameHeaderBytes);

constexpr uint16_t kLastStatusCode = static_cast<uint16_t>(absl::StatusCode::kUnauthenticated);

ABSL_ATTRIBUTE_COLD absl::Status Broken(absl::string_view rule) {
  return absl::InvalidArgumentError(absl::StrCat("frame: ", rule));
}

// The bits of each field that a type uses; all others must be 0.
struct HeaderUse {
  bool known = false;
  uint8_t flags = 0;
  uint16_t status = 0;
  uint32_t sequence = 0;
  uint64_t call = 0, method = 0, timeout = 0;

  bool Covers(const FrameHeader& header) const {
    return ((header.status & ~status) | (header.sequence & ~sequence) | (header.call & ~call) |
            (header.method & ~method) | (header.timeout_ns & ~timeout)) == 0;
  }
};

constexpr HeaderUse UseOf(FrameType type) {
  constexpr uint16_t k16 = 0xffff;
  constexpr uint32_t k32 = 0xffffffff;
  constexpr uint64_t k64 = ~uint64_t{0};
  switch (type) {
    case FrameType::kHello:
      return {.known = true, .sequence = k32, .method = k64};
    case FrameType::kRequest:
      return {.known = true, .call = k64, .method = k64, .timeout = k64};
    case FrameType::kReply:
      return {.known = true, .flags = kFlagNotRun, .status = k16, .call = k64};
    case FrameType::kCancel:
    case FrameType::kPing:
    case FrameType::kPong:
    case FrameType::kProbe:
      return {.known = true, .call = k64};
    case FrameType::kGoAway:
      return {.known = true, .status = k16};
    case FrameType::kOffers:
      return {.known = true};
  }
  return {};
}

constexpr size_t kTypes = 10;
static_assert(static_cast<size_t>(FrameType::kProbe) < kTypes);
constexpr std::array<HeaderUse, kTypes> kUses = [] {
  std::array<HeaderUse, kTypes> uses;
  for (size_t type = 0; type < kTypes; ++type) uses[type] = UseOf(static_cast<FrameType>(type));
  return uses;
}();

// How often a kind of field may come in a frame of a type: 0, once, or any number of times.
enum class Allowed { kNever, kOnce, kAny };

Allowed AllowedIn(FrameType type, FieldKind kind) {
  switch (kind) {
    case FieldKind::kMetadata:
      return type == FrameType::kRequest || type == FrameType::kReply ? Allowed::kAny
                                                                      : Allowed::kNever;
    case FieldKind::kStatusMessage:
      return type == FrameType::kReply || type == FrameType::kGoAway ? Allowed::kOnce
                                                                     : Allowed::kNever;
    case FieldKind::kStatusPayload:
      return type == FrameType::kReply ? Allowed::kAny : Allowed::kNever;
    case FieldKind::kLimits:
    case FieldKind::kAuthentication:
    case FieldKind::kToken:
      return type == FrameType::kHello ? Allowed::kOnce : Allowed::kNever;
    case FieldKind::kOffer:
      return type == FrameType::kHello || type == FrameType::kOffers ? Allowed::kAny
                                                                     : Allowed::kNever;
  }
  return Allowed::kNever;
}

// What is wrong with a key; empty when nothing is.
std::string WrongWithKey(FieldKind kind, size_t key_bytes) {
  switch (kind) {
    case FieldKind::kMetadata:
      if (key_bytes == 0) return "a metadata key is empty";
      if (key_bytes > kMaxMetadataKeyBytes) {
        return absl::StrCat("a metadata key has ", key_bytes, " bytes; the limit is ",
                            kMaxMetadataKeyBytes);
      }
      break;
    case FieldKind::kStatusPayload:
    case FieldKind::kOffer:
      if (key_bytes == 0) return "a status payload or an offer has an empty key";
      if (key_bytes > UINT16_MAX) return "a key has more than 65535 bytes";
      break;
    case FieldKind::kStatusMessage:
    case FieldKind::kLimits:
    case FieldKind::kAuthentication:
    case FieldKind::kToken:
      if (key_bytes != 0) return "a field of a kind without a key has one";
      break;
  }
  return "";
}

struct FieldPrefix {
  uint8_t kind = 0, reserved = 0;
  uint16_t key_bytes = 0;
  uint32_t value_bytes = 0;
};

ABSL_ATTRIBUTE_COLD absl::Status WrongSize(size_t bytes) {
  if (bytes > kMaxHeadBytes) {
    return Broken(absl::StrCat("a head of ", bytes, " bytes; the limit is ", kMaxHeadBytes));
  }
  return Broken(absl::StrCat("a head of ", bytes, " bytes is shorter than its header of ",
                             kFrameHeaderBytes));
}

ABSL_ATTRIBUTE_COLD absl::Status WrongWith(const FrameHeader& header, const HeaderUse& use) {
  const int type = static_cast<int>(header.type);
  if (!use.known) return Broken(absl::StrCat("unknown frame type ", type));
  if ((header.flags & ~use.flags) != 0) {
    return Broken(
        absl::StrCat("unknown flags ", absl::Hex(header.flags), " in a frame of type ", type));
  }
  if (header.status > kLastStatusCode) {
    return Broken(absl::StrCat("status code ", header.status, " is not one of 0 to 16"));
  }
  if (!use.Covers(header)) {
    return Broken(absl::StrCat("a header field that must be 0 is set in a frame of type ", type));
  }
  if (use.timeout != 0 && header.timeout_ns == 0) return Broken("a request without a timeout");
  return Broken("NOT_RUN on a reply with status OK");
}

FieldPrefix ReadPrefix(const char* from) {
  const auto* at = reinterpret_cast<const std::byte*>(from);
  return {LoadLittle<uint8_t>(at), LoadLittle<uint8_t>(at + 1), LoadLittle<uint16_t>(at + 2),
          LoadLittle<uint32_t>(at + 4)};
}

}  // namespace

void EncodeHeader(const FrameHeader& header, std::byte* to) {
  StoreLittle(to + kTypeAt, static_cast<uint8_t>(header.type));
  StoreLittle(to + kFlagsAt, header.flags);
  StoreLittle(to + kStatusAt, header.status);
  StoreLittle(to + kSequenceAt, header.sequence);
  StoreLittle(to + kCallAt, header.call);
  StoreLittle(to + kMethodAt, header.method);
  StoreLittle(to + kTimeoutAt, header.timeout_ns);
}

FrameHeader ReadHeader(std::span<const std::byte> head) {
  const std::byte* at = head.data();
  return {.type = static_cast<FrameType>(LoadLittle<uint8_t>(at + kTypeAt)),
          .flags = LoadLittle<uint8_t>(at + kFlagsAt),
          .status = LoadLittle<uint16_t>(at + kStatusAt),
          .sequence = LoadLittle<uint32_t>(at + kSequenceAt),
          .call = LoadLittle<uint64_t>(at + kCallAt),
          .method = LoadLittle<uint64_t>(at + kMethodAt),
          .timeout_ns = LoadLittle<uint64_t>(at + kTimeoutAt)};
}

absl::Status DecodeHeader(std::span<const std::byte> head, FrameHeader& header) {
  if (head.size() < kFrameHeaderBytes || head.size() > kMaxHeadBytes) return WrongSize(head.size());
  header = ReadHeader(head);
  const auto type = static_cast<size_t>(header.type);
  const HeaderUse& use = kUses[type < kTypes ? type : 0];
  const bool wrong = (header.flags & ~use.flags) != 0 || header.status > kLastStatusCode ||
                     !use.Covers(header) || (use.timeout != 0 && header.timeout_ns == 0) ||
                     (header.flags != 0 && header.status == 0);
  if (!use.known || wrong) return WrongWith(header, use);
  return absl::OkStatus();
}

FieldReader::FieldReader(std::span<const std::byte> head)
    : rest_(AsView(head.subspan(kFrameHeaderBytes))) {}

bool FieldReader::Next(Field& field) {
  if (rest_.size() < kFieldPrefixBytes) return false;
  const FieldPrefix prefix = ReadPrefix(rest_.data());
  field.kind = static_cast<FieldKind>(prefix.kind);
  field.key = rest_.substr(kFieldPrefixBytes, prefix.key_bytes);
  field.value = rest_.substr(kFieldPrefixBytes + prefix.key_bytes, prefix.value_bytes);
  rest_.remove_prefix(kFieldPrefixBytes + prefix.key_bytes + prefix.value_bytes);
  return true;
}

absl::Status CheckFields(FrameType type, std::span<const std::byte> head) {
  if (head.size() == kFrameHeaderBytes) return absl::OkStatus();
  std::string_view rest = AsView(head.subspan(kFrameHeaderBytes));
  uint32_t seen = 0;
  for (size_t fields = 0; !rest.empty(); ++fields) {
    if (fields == kMaxFields) {
      return Broken(absl::StrCat("more than ", kMaxFields, " fields in a head"));
    }
    if (rest.size() < kFieldPrefixBytes) return Broken("a field's prefix is cut short");
    const FieldPrefix prefix = ReadPrefix(rest.data());
    const uint64_t need =
        uint64_t{kFieldPrefixBytes} + prefix.key_bytes + uint64_t{prefix.value_bytes};
    if (need > rest.size()) {
      return Broken(absl::StrCat("a field of ", need, " bytes where ", rest.size(), " are left"));
    }
    if (prefix.reserved != 0) return Broken("a field's reserved byte is not 0");
    const auto kind = static_cast<FieldKind>(prefix.kind);
    const Allowed allowed = AllowedIn(type, kind);
    if (allowed == Allowed::kNever) {
      return Broken(absl::StrCat("a field of kind ", prefix.kind, " in a frame of type ",
                                 static_cast<int>(type)));
    }
    const uint32_t bit = 1U << prefix.kind;  // kinds that are allowed anywhere are below 8
    if (allowed == Allowed::kOnce && (seen & bit) != 0) {
      return Broken(absl::StrCat("a second field of kind ", prefix.kind));
    }
    seen |= bit;
    if (std::string wrong = WrongWithKey(kind, prefix.key_bytes); !wrong.empty()) {
      return Broken(wrong);
    }
    rest.remove_prefix(static_cast<size_t>(need));
  }
  return absl::OkStatus();
}

absl::Status HeadBuilder::Add(const Field& field) {
  if (std::string wrong = WrongWithKey(field.kind, field.key.size()); !wrong.empty()) {
    return absl::InvalidArgumentError(wrong);
  }
  if (fields_ == kMaxFields) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxFields, " metadata and status fields in one message"));
  }
  const size_t old_size = head_.size();
  if (field.value.size() > kMaxHeadBytes ||
      old_size + kFieldPrefixBytes + field.key.size() + field.value.size() > kMaxHeadBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("metadata and status need more than the ", kMaxHeadBytes,
                     " bytes of a message's head (key of ", field.key.size(), " bytes, value of ",
                     field.value.size(), ", ", old_size, " used before)"));
  }
  const size_t new_size = old_size + kFieldPrefixBytes + field.key.size() + field.value.size();
  if (new_size > head_.capacity()) {
    // What is needed now and no more: many heads with a short text may wait for a slow peer. Slots
    // double in size, so that a head is moved a few times at most.
    absl::StatusOr<Buffer> spill = pool_.Allocate(new_size);
    if (!spill.ok()) return spill.status();
    std::memcpy(spill->data(), head_.data(), old_size);
    head_.Resize(new_size, *std::move(spill));
  } else {
    head_.Grow(new_size);
  }
  std::byte* at = head_.data() + old_size;
  StoreLittle(at, static_cast<uint8_t>(field.kind));
  StoreLittle(at + 1, uint8_t{0});
  StoreLittle(at + 2, static_cast<uint16_t>(field.key.size()));
  StoreLittle(at + 4, static_cast<uint32_t>(field.value.size()));
  char* text = reinterpret_cast<char*>(at + kFieldPrefixBytes);
  text += field.key.copy(text, field.key.size());
  field.value.copy(text, field.value.size());
  ++fields_;
  return absl::OkStatus();
}

Head HeadBuilder::Finish(const FrameHeader& header) {
  EncodeHeader(header, head_.data());
  return std::move(head_);
}

}  // namespace farcall
