#include "farcall/transports/tcp/prefix.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "farcall/rpc/message.h"

namespace farcall::tcp {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

PrefixBytes Encode(const Prefix& prefix) {
  PrefixBytes bytes;
  EncodePrefix(prefix, bytes);
  return bytes;
}

absl::Status Decode(const PrefixBytes& bytes) {
  Prefix prefix;
  return DecodePrefix(bytes, prefix);
}

std::string Refusal(const Prefix& prefix) { return std::string(Decode(Encode(prefix)).message()); }

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST_CASE("a prefix comes back as it was written") {
  const std::vector<Prefix> prefixes = {
      {.kind = RecordKind::kMessage},
      {.kind = RecordKind::kMessage, .head = kMaxHeadBytes, .body = kMaxInlinePayload},
      {.kind = RecordKind::kMessage, .head = 1, .attachment = kMaxInlinePayload},
      {.kind = RecordKind::kBegin, .head = 33, .transfer = 7, .body = kMaxInlinePayload + 1},
      {.kind = RecordKind::kBegin, .transfer = ~uint32_t{0}, .body = 1, .attachment = kMax - 1},
      {.kind = RecordKind::kChunk, .transfer = 9, .offset = kMax - kMaxChunk, .length = kMaxChunk},
      {.kind = RecordKind::kChunk, .transfer = 9, .length = 1},
      {.kind = RecordKind::kAbort, .transfer = 1},
      {.kind = RecordKind::kAbandon, .transfer = 1},
  };
  for (const Prefix& prefix : prefixes) {
    Prefix back;
    REQUIRE(DecodePrefix(Encode(prefix), back).ToString() == "OK");
    CHECK(back.kind == prefix.kind);
    CHECK(back.head == prefix.head);
    CHECK(back.transfer == prefix.transfer);
    CHECK(back.body == prefix.body);
    CHECK(back.attachment == prefix.attachment);
    CHECK(back.offset == prefix.offset);
    CHECK(back.length == prefix.length);
  }
}

TEST_CASE("the layout is the one in wire_format.md") {
  const PrefixBytes bytes = Encode({.kind = RecordKind::kBegin,
                                    .head = 0x0201,
                                    .transfer = 0x06050403,
                                    .body = 0x0e0d0c0b0a090807,
                                    .attachment = 0x161514131211100f});
  const unsigned char expected[kPrefixBytes] = {2,  0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                                11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22};
  CHECK(std::memcmp(bytes.data(), expected, kPrefixBytes) == 0);
}

TEST_CASE("every kind but the five is refused") {
  PrefixBytes bytes = Encode({.kind = RecordKind::kAbort, .transfer = 1});
  for (int kind = 0; kind < 256; ++kind) {
    bytes[0] = static_cast<std::byte>(kind);
    const bool known = kind >= 1 && kind <= 5;
    // All of them but MESSAGE, BEGIN and CHUNK are whole as they stand.
    if (!known) {
      CHECK(Decode(bytes).message() ==
            "the kind of a record is 1 to 5, not " + std::to_string(kind));
    }
    if (kind == 4 || kind == 5) CHECK(Decode(bytes).ok());
  }
}

TEST_CASE("every flag is refused") {
  PrefixBytes bytes = Encode({.kind = RecordKind::kMessage});
  for (int bit = 0; bit < 8; ++bit) {
    bytes[1] = static_cast<std::byte>(1 << bit);
    CHECK(Decode(bytes).message() ==
          "the flags of a record are 0, not " + std::to_string(1 << bit));
  }
}

TEST_CASE("hostile lengths of messages name the rule") {
  const auto message = [](uint16_t head, uint64_t body, uint64_t attachment) {
    return Refusal(
        {.kind = RecordKind::kMessage, .head = head, .body = body, .attachment = attachment});
  };
  const auto begin = [](uint64_t body, uint64_t attachment) {
    return Refusal(
        {.kind = RecordKind::kBegin, .transfer = 1, .body = body, .attachment = attachment});
  };
  CHECK(message(4096, 0, 0).empty());
  CHECK(message(4097, 0, 0) == "a head is at most 4096 bytes, not 4097");
  CHECK(message(65535, 0, 0) == "a head is at most 4096 bytes, not 65535");

  constexpr uint64_t kHostile[] = {kMaxInlinePayload + 1,
                                   uint64_t{1} << 31,
                                   (uint64_t{1} << 32) - 1,
                                   uint64_t{1} << 32,
                                   uint64_t{1} << 63,
                                   kMax - 1,
                                   kMax};
  CHECK(message(0, kMaxInlinePayload, 0).empty());
  CHECK(message(0, 0, kMaxInlinePayload).empty());
  CHECK(message(0, kMaxInlinePayload - 1, 1).empty());
  CHECK(message(0, kMaxInlinePayload, 1) ==
        "the payload of a MESSAGE is at most 65536 bytes, not 65537");
  for (const uint64_t size : kHostile) {
    const std::string expected =
        "the payload of a MESSAGE is at most 65536 bytes, not " + std::to_string(size);
    CHECK(message(0, size, 0) == expected);
    CHECK(message(0, 0, size) == expected);
    CHECK(begin(size, 0).empty());
    CHECK(begin(0, size).empty());
  }
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, kMaxInlinePayload - 1, kMaxInlinePayload}) {
    CHECK(begin(size, 0) ==
          "the payload of a BEGIN is more than 65536 bytes, not " + std::to_string(size));
  }
  CHECK(begin(kMax, 1) == "body and attachment together fit 64 bits, not 1");
  CHECK(begin(1, kMax) == "body and attachment together fit 64 bits, not " + std::to_string(kMax));
  CHECK(message(0, kMax, kMax) ==
        "body and attachment together fit 64 bits, not " + std::to_string(kMax));
  CHECK(Refusal({.kind = RecordKind::kMessage, .transfer = 3}) ==
        "the transfer of a MESSAGE is 0, not 3");
}

TEST_CASE("hostile numbers of the other records name the rule") {
  const auto chunk = [](uint64_t offset, uint64_t length) {
    return Refusal({.kind = RecordKind::kChunk, .transfer = 1, .offset = offset, .length = length});
  };
  CHECK(chunk(0, 1).empty());
  CHECK(chunk(kMax - 1, 1).empty());
  CHECK(chunk(kMax, 1) == "the end of a CHUNK fits 64 bits, not " + std::to_string(kMax));
  CHECK(chunk(kMax - kMaxChunk + 1, kMaxChunk).starts_with("the end of a CHUNK fits 64 bits"));
  for (const uint64_t length : {uint64_t{0}, kMaxChunk + 1, uint64_t{1} << 31,
                                (uint64_t{1} << 32) - 1, uint64_t{1} << 32, kMax}) {
    CHECK(chunk(0, length) ==
          "the length of a CHUNK is 1 to 2097152, not " + std::to_string(length));
  }
  for (const RecordKind kind :
       {RecordKind::kBegin, RecordKind::kChunk, RecordKind::kAbort, RecordKind::kAbandon}) {
    CHECK(Refusal({.kind = kind, .body = kMax, .length = 1}) ==
          "the transfer of a record other than MESSAGE is at least 1, not 0");
  }
  for (const RecordKind kind : {RecordKind::kAbort, RecordKind::kAbandon}) {
    CHECK(Refusal({.kind = kind, .transfer = 1, .body = 5}) ==
          "the sizes of an ABORT or ABANDON are 0, not 5");
    CHECK(Refusal({.kind = kind, .transfer = 1, .attachment = 6}) ==
          "the sizes of an ABORT or ABANDON are 0, not 6");
  }
  for (const RecordKind kind : {RecordKind::kChunk, RecordKind::kAbort, RecordKind::kAbandon}) {
    CHECK(Refusal({.kind = kind, .head = 1, .transfer = 1, .length = 1}) ==
          "a record without a head has 0 for its size, not 1");
  }
}

TEST_CASE("the preamble") {
  const auto ours = Preamble();
  for (size_t size = 0; size <= ours.size(); ++size) {
    CHECK(CheckPreamble(std::span(ours).first(size)).ok());
  }
  for (size_t at = 0; at < ours.size(); ++at) {
    auto wrong = ours;
    wrong[at] ^= std::byte{0x20};
    // The first wrong byte is enough.
    CHECK_FALSE(CheckPreamble(std::span(wrong).first(at + 1)).ok());
    CHECK(CheckPreamble(std::span(wrong).first(at)).ok());
  }
  CHECK(CheckPreamble(Bytes("GET / HTTP/1.1\r\n")).message() == "it speaks HTTP, not Farcall");
  CHECK(CheckPreamble(Bytes("PRI * HTTP/2.0\r\n")).message() == "it speaks HTTP, not Farcall");
  CHECK(CheckPreamble(Bytes("\x16\x03\x01\x02")).message() == "it speaks TLS, not Farcall");
  CHECK(CheckPreamble(Bytes("SSH-2.0-OpenSSH")).message() == "it speaks SSH, not Farcall");
  CHECK(CheckPreamble(Bytes("\x01zz\n")).message() ==
        "it does not speak Farcall: its first bytes are \"\\x01zz\\n\"");
  CHECK(CheckPreamble(Bytes("FARCALL\x02")).message() ==
        "it speaks version 2 of the Farcall TCP wire, this side 1: both need the same release");
  CHECK(CheckPreamble(Bytes("FARCALL\x02")).code() == absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace farcall::tcp
