// Frames: the header and the fields of a message's head, as bytes and back (rpc/wire_format.md).
//
// Pure functions, no I/O and no state. Decoders take hostile bytes: they never read beyond the
// span, and an error names the rule that was broken.

#ifndef FARCALL_RPC_FRAME_H_
#define FARCALL_RPC_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/message.h"

namespace farcall {

enum class FrameType : uint8_t {
  kHello = 1,
  kRequest = 2,
  kReply = 3,
  kCancel = 4,
  kPing = 5,
  kPong = 6,
  kGoAway = 7,
  kOffers = 8,
  kProbe = 9,
};

// REPLY: the server promises that the handler never saw this call.
inline constexpr uint8_t kFlagNotRun = 1;

inline constexpr uint64_t kHelloMagic = 0x314c4c4143524146;  // "FARCALL1"
inline constexpr uint16_t kProtocolVersion = 1;

// Of a PROBE, whose body is sent back as it came.
inline constexpr uint64_t kMaxProbeBytes = uint64_t{1} << 20;

struct FrameHeader {
  FrameType type = FrameType::kPing;
  uint8_t flags = 0;
  uint16_t status = 0;
  uint32_t sequence = 0;
  uint64_t call = 0;
  uint64_t method = 0;
  uint64_t timeout_ns = 0;
};

inline constexpr size_t kFrameHeaderBytes = 32;

// Writes the header to the first kFrameHeaderBytes of `to`.
void EncodeHeader(const FrameHeader& header, std::byte* to);

// Of a head that DecodeHeader accepted.
FrameHeader ReadHeader(std::span<const std::byte> head);

// Reads and checks a header: INVALID_ARGUMENT for a short head, an unknown type or flag, or a field
// that must be 0.
absl::Status DecodeHeader(std::span<const std::byte> head, FrameHeader& header);
inline absl::StatusOr<FrameHeader> DecodeHeader(std::span<const std::byte> head) {
  FrameHeader header;
  absl::Status status = DecodeHeader(head, header);
  if (!status.ok()) return status;
  return header;
}

enum class FieldKind : uint8_t {
  kMetadata = 1,
  kStatusMessage = 2,
  kStatusPayload = 3,
  kLimits = 4,
  kOffer = 5,
  kAuthentication = 6,
  kToken = 7,
};

struct Field {
  FieldKind kind = FieldKind::kMetadata;
  std::string_view key;
  std::string_view value;
};

inline constexpr size_t kFieldPrefixBytes = 8;
inline constexpr size_t kMaxFields = 64;
inline constexpr size_t kMaxMetadataKeyBytes = 255;

// Walks the fields of a head that CheckFields accepted.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> head);
  // False at the end. The views point into the head.
  bool Next(Field& field);

 private:
  std::string_view rest_;
};

// Checks that the fields fill the head exactly, that each is allowed in a frame of `type`, and
// their number, keys and lengths. INVALID_ARGUMENT names the rule.
absl::Status CheckFields(FrameType type, std::span<const std::byte> head);

// Builds a head: the header's place first, then fields. Heads within Head::kInlineBytes allocate
// nothing.
class HeadBuilder {
 public:
  explicit HeadBuilder(BufferPool& pool) : pool_(pool) { head_.Resize(kFrameHeaderBytes); }

  // RESOURCE_EXHAUSTED when the head would exceed kMaxHeadBytes or kMaxFields (names the limit), or
  // when the pool is dry; INVALID_ARGUMENT for a key that the kind does not allow. The head is
  // unchanged then.
  absl::Status Add(const Field& field);
  size_t size() const { return head_.size(); }

  // Writes the header and gives the head away.
  Head Finish(const FrameHeader& header);

 private:
  BufferPool& pool_;
  Head head_;
  size_t fields_ = 0;
};

}  // namespace farcall

#endif  // FARCALL_RPC_FRAME_H_
