// The wire, composed by hand from what wire_format.md says (rpc/ and transports/tcp/) and from none
// of the library's encoders. Every field has a name and takes any value; lengths are right until
// they are bent.

#ifndef FARCALL_TESTS_HOSTILE_WIRE_WRITER_H_
#define FARCALL_TESTS_HOSTILE_WIRE_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::hostile {

class WireWriter {
 public:
  WireWriter& U8(uint8_t value) { return Number(value, 1); }
  WireWriter& U16(uint16_t value) { return Number(value, 2); }
  WireWriter& U32(uint32_t value) { return Number(value, 4); }
  WireWriter& U64(uint64_t value) { return Number(value, 8); }
  WireWriter& Text(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  WireWriter& Number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>((value >> (8 * i)) & 0xff);
    return *this;
  }

  std::string bytes_;
};

// ---- records ----

inline constexpr uint8_t kMessage = 1, kBegin = 2, kChunk = 3, kAbort = 4, kAbandon = 5;
inline constexpr size_t kPreambleBytes = 8, kRecordPrefixBytes = 24;
inline constexpr uint64_t kMaxHead = 4096, kMaxInline = 65536, kMaxChunk = 2097152;

struct RecordPrefix {
  uint8_t kind = kMessage;
  uint8_t flags = 0;
  uint16_t head = 0;
  uint32_t transfer = 0;
  uint64_t first = 0;   // bytes of body, or offset
  uint64_t second = 0;  // bytes of attachment, or length
};

std::string Preamble(uint8_t version = 1);
std::string Bytes(const RecordPrefix& prefix);
std::string Message(std::string_view head, std::string_view body = {},
                    std::string_view attachment = {});
std::string Begin(uint32_t transfer, std::string_view head, uint64_t body, uint64_t attachment = 0);
std::string Chunk(uint32_t transfer, uint64_t offset, std::string_view bytes);
std::string Abort(uint32_t transfer);
std::string Abandon(uint32_t transfer);
// A BEGIN and all its chunks.
std::string Transfer(uint32_t transfer, std::string_view head, std::string_view body,
                     std::string_view attachment = {});

// ---- heads ----

inline constexpr uint8_t kHello = 1, kRequest = 2, kReply = 3, kCancel = 4, kPing = 5, kPong = 6,
                         kGoAway = 7, kOffers = 8, kProbe = 9;
inline constexpr uint8_t kNotRun = 1;
inline constexpr size_t kHeaderBytes = 32, kFieldPrefixBytes = 8;
inline constexpr uint64_t kMagic = 0x314c4c4143524146;
inline constexpr uint64_t kMinuteNs = 60'000'000'000;

struct Header {
  uint8_t type = kPing;
  uint8_t flags = 0;
  uint16_t status = 0;
  uint32_t sequence = 0;
  uint64_t call = 0;
  uint64_t method = 0;
  uint64_t timeout = 0;
};

inline constexpr uint8_t kMetadata = 1, kStatusMessage = 2, kStatusPayload = 3, kLimits = 4,
                         kOffer = 5, kAuthentication = 6, kToken = 7;

struct FieldWords {
  uint8_t kind = kMetadata;
  std::string key = {};
  std::string value = {};
  uint8_t reserved = 0;
  std::optional<uint16_t> key_length = {};  // other than the key's
  std::optional<uint32_t> value_length = {};
};

struct LimitsWords {
  uint64_t body = 1 << 30;
  uint64_t attachment = 1 << 30;
  uint32_t calls = 1024;
  uint32_t reserved = 0;
  uint64_t features = 0;
};

std::string Bytes(const Header& header);
std::string Bytes(const FieldWords& field);
std::string Bytes(const LimitsWords& limits);
std::string Head(const Header& header, const std::vector<FieldWords>& fields = {});

// A HELLO as a record.
std::string Hello(const LimitsWords& limits = {}, const std::vector<FieldWords>& more = {});
Header HelloHeader(uint16_t lowest = 1, uint16_t highest = 1);
// Preamble and HELLO.
std::string Greeting();

}  // namespace farcall::hostile

#endif  // FARCALL_TESTS_HOSTILE_WIRE_WRITER_H_
