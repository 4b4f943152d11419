#include "farcall/transports/tcp/prefix.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/message.h"

namespace farcall::tcp {
namespace {

constexpr std::string_view kMagic = "FARCALL";
static_assert(kMagic.size() + 1 == kPreambleBytes);
static_assert(kMaxHeadBytes <= std::numeric_limits<uint16_t>::max());
static_assert(kMaxChunk > kMaxInlinePayload);

// Where the fields are, in bytes from the start of a prefix.
constexpr size_t kKindAt = 0;
constexpr size_t kFlagsAt = 1;
constexpr size_t kHeadAt = 2;
constexpr size_t kTransferAt = 4;
constexpr size_t kFirstAt = 8;    // body or offset
constexpr size_t kSecondAt = 16;  // attachment or length
static_assert(kSecondAt + sizeof(uint64_t) == kPrefixBytes);

absl::Status Broken(std::string_view rule, uint64_t number) {
  return absl::InvalidArgumentError(absl::StrCat(Absl(rule), ", not ", number));
}

absl::Status CheckMessage(const Prefix& prefix) {
  if (prefix.head > kMaxHeadBytes) {
    return Broken(absl::StrCat("a head is at most ", kMaxHeadBytes, " bytes"), prefix.head);
  }
  if (prefix.attachment > std::numeric_limits<uint64_t>::max() - prefix.body) {
    return Broken("body and attachment together fit 64 bits", prefix.attachment);
  }
  const bool inlined = prefix.kind == RecordKind::kMessage;
  if (inlined && prefix.payload() > kMaxInlinePayload) {
    return Broken(absl::StrCat("the payload of a MESSAGE is at most ", kMaxInlinePayload, " bytes"),
                  prefix.payload());
  }
  if (!inlined && prefix.payload() <= kMaxInlinePayload) {
    return Broken(absl::StrCat("the payload of a BEGIN is more than ", kMaxInlinePayload, " bytes"),
                  prefix.payload());
  }
  if (inlined && prefix.transfer != 0)
    return Broken("the transfer of a MESSAGE is 0", prefix.transfer);
  return absl::OkStatus();
}

absl::Status CheckChunk(const Prefix& prefix) {
  if (prefix.length == 0 || prefix.length > kMaxChunk) {
    return Broken(absl::StrCat("the length of a CHUNK is 1 to ", kMaxChunk), prefix.length);
  }
  if (prefix.offset > std::numeric_limits<uint64_t>::max() - prefix.length) {
    return Broken("the end of a CHUNK fits 64 bits", prefix.offset);
  }
  return absl::OkStatus();
}

// What strangers say first.
std::string_view WhoSpeaks(std::string_view bytes) {
  for (std::string_view http : {"GET ", "POST", "PUT ", "HEAD", "OPTI", "PRI ", "HTTP", "DELE"}) {
    if (bytes.starts_with(http)) return "HTTP";
  }
  if (bytes.starts_with("SSH-")) return "SSH";
  if (bytes.size() >= 2 && bytes[0] == 0x16 && bytes[1] == 0x03) return "TLS";
  return {};
}

}  // namespace

void EncodePrefix(const Prefix& prefix, std::span<std::byte, kPrefixBytes> out) {
  const bool chunk = prefix.kind == RecordKind::kChunk;
  StoreLittle(out.data() + kKindAt, static_cast<uint8_t>(prefix.kind));
  StoreLittle(out.data() + kFlagsAt, uint8_t{0});
  StoreLittle(out.data() + kHeadAt, prefix.head);
  StoreLittle(out.data() + kTransferAt, prefix.transfer);
  StoreLittle(out.data() + kFirstAt, chunk ? prefix.offset : prefix.body);
  StoreLittle(out.data() + kSecondAt, chunk ? prefix.length : prefix.attachment);
}

absl::Status DecodePrefix(std::span<const std::byte, kPrefixBytes> bytes, Prefix& prefix) {
  const auto kind = LoadLittle<uint8_t>(bytes.data() + kKindAt);
  if (kind < static_cast<uint8_t>(RecordKind::kMessage) ||
      kind > static_cast<uint8_t>(RecordKind::kAbandon)) {
    return Broken("the kind of a record is 1 to 5", kind);
  }
  if (const auto flags = LoadLittle<uint8_t>(bytes.data() + kFlagsAt); flags != 0) {
    return Broken("the flags of a record are 0", flags);
  }
  prefix = Prefix{};
  prefix.kind = static_cast<RecordKind>(kind);
  prefix.head = LoadLittle<uint16_t>(bytes.data() + kHeadAt);
  prefix.transfer = LoadLittle<uint32_t>(bytes.data() + kTransferAt);
  const auto first = LoadLittle<uint64_t>(bytes.data() + kFirstAt);
  const auto second = LoadLittle<uint64_t>(bytes.data() + kSecondAt);
  if (prefix.kind != RecordKind::kMessage && prefix.transfer == 0) {
    return Broken("the transfer of a record other than MESSAGE is at least 1", 0);
  }
  if (prefix.kind == RecordKind::kMessage || prefix.kind == RecordKind::kBegin) {
    prefix.body = first;
    prefix.attachment = second;
    return CheckMessage(prefix);
  }
  if (prefix.head != 0) return Broken("a record without a head has 0 for its size", prefix.head);
  if (prefix.kind == RecordKind::kChunk) {
    prefix.offset = first;
    prefix.length = second;
    return CheckChunk(prefix);
  }
  if (first != 0 || second != 0) {
    return Broken("the sizes of an ABORT or ABANDON are 0", first != 0 ? first : second);
  }
  return absl::OkStatus();
}

std::array<std::byte, kPreambleBytes> Preamble() {
  std::array<std::byte, kPreambleBytes> preamble;
  for (size_t i = 0; i < kMagic.size(); ++i) preamble[i] = static_cast<std::byte>(kMagic[i]);
  preamble[kMagic.size()] = std::byte{kWireVersion};
  return preamble;
}

absl::Status CheckPreamble(std::span<const std::byte> bytes) {
  const std::string_view seen(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kPreambleBytes));
  if (seen.substr(0, kMagic.size()) != kMagic.substr(0, seen.size())) {
    const std::string_view name = WhoSpeaks(seen);
    if (!name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("it speaks ", Absl(name), ", not Farcall"));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "it does not speak Farcall: its first bytes are \"", absl::CHexEscape(Absl(seen)), "\""));
  }
  if (seen.size() == kPreambleBytes) {
    const auto version = static_cast<uint8_t>(seen[kMagic.size()]);
    if (version != kWireVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat("it speaks version ", version, " of the Farcall TCP wire, this side ",
                       kWireVersion, ": both need the same release"));
    }
  }
  return absl::OkStatus();
}

}  // namespace farcall::tcp
