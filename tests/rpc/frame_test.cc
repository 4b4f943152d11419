// Frames as bytes: what is written, byte for byte as rpc/wire_format.md says, and what hostile
// bytes do.

#include "farcall/rpc/frame.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "farcall/rpc/bytes.h"

namespace farcall {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::array kTypes = {FrameType::kHello,  FrameType::kRequest, FrameType::kReply,
                               FrameType::kCancel, FrameType::kPing,    FrameType::kPong,
                               FrameType::kGoAway, FrameType::kOffers,  FrameType::kProbe};
constexpr std::array kKinds = {
    FieldKind::kMetadata, FieldKind::kStatusMessage,  FieldKind::kStatusPayload, FieldKind::kLimits,
    FieldKind::kOffer,    FieldKind::kAuthentication, FieldKind::kToken};

// The smallest header of a type that is accepted.
FrameHeader Plain(FrameType type) {
  FrameHeader header{.type = type};
  if (type == FrameType::kRequest) header.timeout_ns = 1;
  return header;
}

Bytes Encoded(const FrameHeader& header) {
  Bytes head(kFrameHeaderBytes, std::byte{0xee});
  EncodeHeader(header, head.data());
  return head;
}

// Appends a field whose prefix claims whatever the test wants.
void Put(Bytes& head, unsigned kind, size_t key_bytes, uint64_t value_bytes,
         const std::string& content, uint8_t reserved = 0) {
  Bytes field(kFieldPrefixBytes + content.size());
  StoreLittle(field.data(), static_cast<uint8_t>(kind));
  StoreLittle(field.data() + 1, reserved);
  StoreLittle(field.data() + 2, static_cast<uint16_t>(key_bytes));
  StoreLittle(field.data() + 4, static_cast<uint32_t>(value_bytes));
  std::memcpy(field.data() + kFieldPrefixBytes, content.data(), content.size());
  head.insert(head.end(), field.begin(), field.end());
}

void Put(Bytes& head, FieldKind kind, const std::string& key, const std::string& value) {
  Put(head, static_cast<unsigned>(kind), key.size(), value.size(), key + value);
}

// In memory of exactly its size, so that reading one byte too many is a sanitizer's error.
absl::Status Check(FrameType type, const Bytes& head) {
  const auto exact = std::make_unique<std::byte[]>(head.size());
  if (!head.empty()) std::memcpy(exact.get(), head.data(), head.size());
  const std::span<const std::byte> bytes(exact.get(), head.size());
  const absl::StatusOr<FrameHeader> header = DecodeHeader(bytes);
  if (!header.ok()) return header.status();
  REQUIRE(header->type == type);
  absl::Status checked = CheckFields(type, bytes);
  if (!checked.ok()) return checked;
  size_t walked = kFrameHeaderBytes;
  FieldReader fields(bytes);
  for (Field field; fields.Next(field);) {
    walked += kFieldPrefixBytes + field.key.size() + field.value.size();
  }
  CHECK(walked == bytes.size());
  return absl::OkStatus();
}

bool Accepts(FrameType type, const Bytes& head) {
  const absl::Status checked = Check(type, head);
  if (!checked.ok()) {
    CHECK(checked.code() == absl::StatusCode::kInvalidArgument);
    CHECK_FALSE(checked.message().empty());
  }
  return checked.ok();
}

std::string KeyFor(FieldKind kind) {
  return kind == FieldKind::kMetadata || kind == FieldKind::kStatusPayload ||
                 kind == FieldKind::kOffer
             ? "k"
             : "";
}

// The table of fields in rpc/wire_format.md; -1: any number.
int TimesAllowed(FrameType type, FieldKind kind) {
  switch (type) {
    case FrameType::kHello:
      if (kind == FieldKind::kOffer) return -1;
      return kind == FieldKind::kLimits || kind == FieldKind::kAuthentication ||
                     kind == FieldKind::kToken
                 ? 1
                 : 0;
    case FrameType::kOffers:
      return kind == FieldKind::kOffer ? -1 : 0;
    case FrameType::kRequest:
      return kind == FieldKind::kMetadata ? -1 : 0;
    case FrameType::kReply:
      if (kind == FieldKind::kMetadata || kind == FieldKind::kStatusPayload) return -1;
      return kind == FieldKind::kStatusMessage ? 1 : 0;
    case FrameType::kGoAway:
      return kind == FieldKind::kStatusMessage ? 1 : 0;
    default:
      return 0;
  }
}

// ---- the header ----

TEST_CASE("a header comes back as it was written") {
  const std::array headers = {
      FrameHeader{.type = FrameType::kHello, .sequence = 0xffff0001, .method = kHelloMagic},
      FrameHeader{.type = FrameType::kRequest,
                  .call = UINT64_MAX,
                  .method = 0x0123456789abcdef,
                  .timeout_ns = UINT64_MAX},
      FrameHeader{.type = FrameType::kReply, .call = 1},
      FrameHeader{.type = FrameType::kReply, .flags = kFlagNotRun, .status = 16, .call = 0},
      FrameHeader{.type = FrameType::kCancel, .call = uint64_t{1} << 63},
      FrameHeader{.type = FrameType::kPing, .call = 7},
      FrameHeader{.type = FrameType::kPong, .call = 7},
      FrameHeader{.type = FrameType::kGoAway, .status = 14},
      FrameHeader{.type = FrameType::kOffers},
      FrameHeader{.type = FrameType::kProbe, .call = 9},
  };
  for (const FrameHeader& header : headers) {
    const absl::StatusOr<FrameHeader> back = DecodeHeader(Encoded(header));
    REQUIRE(back.ok());
    CHECK(back->type == header.type);
    CHECK(back->flags == header.flags);
    CHECK(back->status == header.status);
    CHECK(back->sequence == header.sequence);
    CHECK(back->call == header.call);
    CHECK(back->method == header.method);
    CHECK(back->timeout_ns == header.timeout_ns);
  }
}

TEST_CASE("a head shorter than a header or longer than the limit is refused") {
  const Bytes whole = Encoded(Plain(FrameType::kPing));
  for (size_t bytes = 0; bytes < kFrameHeaderBytes; ++bytes) {
    CHECK_FALSE(Accepts(FrameType::kPing, Bytes(whole.begin(), whole.begin() + bytes)));
  }
  CHECK(Accepts(FrameType::kPing, whole));

  for (const size_t bytes : {kMaxHeadBytes, kMaxHeadBytes + 1}) {
    Bytes head = Encoded(Plain(FrameType::kRequest));
    Put(head, FieldKind::kMetadata, "k",
        std::string(bytes - kFrameHeaderBytes - kFieldPrefixBytes - 1, 'v'));
    REQUIRE(head.size() == bytes);
    CHECK(Accepts(FrameType::kRequest, head) == (bytes == kMaxHeadBytes));
  }
}

TEST_CASE("unknown types are refused") {
  for (int type = 0; type < 256; ++type) {
    Bytes head = Encoded(Plain(FrameType::kRequest));  // a timeout is the stray field of the others
    head[0] = static_cast<std::byte>(type);
    const bool known = type >= 1 && type <= 9;
    const absl::StatusOr<FrameHeader> header = DecodeHeader(head);
    CHECK(header.ok() == (type == 2));
    if (!known) CHECK(std::string(header.status().message()).find("unknown") != std::string::npos);
  }
}

TEST_CASE("NOT_RUN belongs to replies with a status; every other flag is refused") {
  for (const FrameType type : kTypes) {
    for (int flags = 1; flags < 256; ++flags) {
      FrameHeader header = Plain(type);
      header.flags = static_cast<uint8_t>(flags);
      CHECK_FALSE(Accepts(type, Encoded(header)));
      if (type != FrameType::kReply && type != FrameType::kGoAway) continue;
      header.status = 14;
      CHECK(Accepts(type, Encoded(header)) == (type == FrameType::kReply && flags == kFlagNotRun));
    }
  }
}

TEST_CASE("a header field that its type does not use must be 0") {
  for (const FrameType type : kTypes) {
    const bool hello = type == FrameType::kHello;
    const bool request = type == FrameType::kRequest;
    const bool ends = type == FrameType::kReply || type == FrameType::kGoAway;
    FrameHeader header = Plain(type);
    header.status = 1;
    CHECK(Accepts(type, Encoded(header)) == ends);
    header = Plain(type);
    header.sequence = 1;
    CHECK(Accepts(type, Encoded(header)) == hello);
    header = Plain(type);
    header.call = uint64_t{1} << 63;
    CHECK(Accepts(type, Encoded(header)) ==
          (!hello && type != FrameType::kGoAway && type != FrameType::kOffers));
    header = Plain(type);
    header.method = 1;
    CHECK(Accepts(type, Encoded(header)) == (hello || request));
    header = Plain(type);
    header.timeout_ns = UINT64_MAX;
    CHECK(Accepts(type, Encoded(header)) == request);
  }
}

TEST_CASE("status codes are 0 to 16") {
  for (const uint32_t status : {0U, 1U, 16U, 17U, 255U, 256U, 0x8000U, 0xffffU}) {
    FrameHeader header{.type = FrameType::kReply, .status = static_cast<uint16_t>(status)};
    CHECK(Accepts(FrameType::kReply, Encoded(header)) == (status <= 16));
    header.type = FrameType::kGoAway;
    CHECK(Accepts(FrameType::kGoAway, Encoded(header)) == (status <= 16));
  }
}

TEST_CASE("a request has a timeout") {
  for (const uint64_t timeout : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, UINT64_MAX}) {
    CHECK(Accepts(FrameType::kRequest,
                  Encoded({.type = FrameType::kRequest, .timeout_ns = timeout})) == (timeout != 0));
  }
}

// ---- fields ----

TEST_CASE("every kind of field in every type of frame, once and twice") {
  for (const FrameType type : kTypes) {
    for (unsigned kind = 0; kind < 256; ++kind) {
      const bool known = kind >= 1 && kind <= kKinds.size();
      const std::string key = known ? KeyFor(static_cast<FieldKind>(kind)) : "k";
      const int times = known ? TimesAllowed(type, static_cast<FieldKind>(kind)) : 0;
      Bytes head = Encoded(Plain(type));
      Put(head, kind, key.size(), 1, key + "v");
      CHECK(Accepts(type, head) == (times != 0));
      Put(head, kind, key.size(), 1, key + "v");
      CHECK(Accepts(type, head) == (times == -1));
    }
  }
}

// Several fields of every kind that the frame may have.
std::pair<Bytes, std::vector<size_t>> RichHead(FrameType type) {
  Bytes head = Encoded(Plain(type));
  std::vector<size_t> borders = {head.size()};
  for (const FieldKind kind : kKinds) {
    const int times = TimesAllowed(type, kind);
    for (int i = 0; i < (times < 0 ? 3 : times); ++i) {
      Put(head, kind, KeyFor(kind), std::string(static_cast<size_t>(5 * i), 'v'));
      borders.push_back(head.size());
    }
  }
  return {std::move(head), std::move(borders)};
}

TEST_CASE("a head cut at any byte but a field's border is refused") {
  for (const FrameType type : kTypes) {
    const auto [head, borders] = RichHead(type);
    CHECK(Accepts(type, head));
    for (size_t bytes = kFrameHeaderBytes; bytes < head.size(); ++bytes) {
      const bool border = std::find(borders.begin(), borders.end(), bytes) != borders.end();
      CHECK(Accepts(type, Bytes(head.begin(), head.begin() + static_cast<ptrdiff_t>(bytes))) ==
            border);
    }
  }
}

TEST_CASE("a byte behind the last field is refused") {
  for (const FrameType type : kTypes) {
    Bytes head = RichHead(type).first;
    for (size_t extra = 1; extra < kFieldPrefixBytes; ++extra) {
      head.push_back(std::byte{0});
      CHECK_FALSE(Accepts(type, head));
    }
  }
}

TEST_CASE("a field's lengths are held against what is there") {
  const size_t room = kMaxHeadBytes - kFrameHeaderBytes - kFieldPrefixBytes - 1;
  for (const uint64_t there : {uint64_t{0}, uint64_t{100}, uint64_t{room}}) {
    for (const uint64_t claimed : {uint64_t{0}, there - 1, there, there + 1, uint64_t{room},
                                   uint64_t{room} + 1, (uint64_t{1} << 31) - 1, uint64_t{1} << 31,
                                   uint64_t{UINT32_MAX} - 8, uint64_t{UINT32_MAX}}) {
      if (claimed > UINT32_MAX) continue;  // there - 1 of nothing
      Bytes head = Encoded(Plain(FrameType::kRequest));
      Put(head, 1, 1, claimed, "k" + std::string(there, '\0'));
      // What is left over would have to be fields; zeros are of no known kind.
      CHECK(Accepts(FrameType::kRequest, head) == (claimed == there));
    }
  }
  // A key that would take bytes which are not there.
  for (const size_t claimed : {1, 2, 255, 256, 65535}) {
    Bytes head = Encoded(Plain(FrameType::kReply));
    Put(head, 3, claimed, 0, "k");
    CHECK(Accepts(FrameType::kReply, head) == (claimed == 1));
  }
  // Key and value together would wrap 32 bits.
  Bytes head = Encoded(Plain(FrameType::kReply));
  Put(head, 3, 65535, UINT32_MAX - 65535 - 8 + 1, std::string(100, 'x'));
  CHECK_FALSE(Accepts(FrameType::kReply, head));
}

TEST_CASE("keys have the lengths that their kind allows") {
  for (const FrameType type : kTypes) {
    for (const FieldKind kind : kKinds) {
      if (TimesAllowed(type, kind) == 0) continue;
      const bool keyed = !KeyFor(kind).empty();
      for (const size_t bytes : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{4000}}) {
        Bytes head = Encoded(Plain(type));
        Put(head, kind, std::string(bytes, 'k'), "v");
        const bool right =
            keyed ? bytes >= 1 && (kind != FieldKind::kMetadata || bytes <= 255) : bytes == 0;
        CHECK(Accepts(type, head) == right);
      }
    }
  }
}

TEST_CASE("the reserved byte of a field is 0") {
  for (int reserved = 1; reserved < 256; ++reserved) {
    Bytes head = Encoded(Plain(FrameType::kRequest));
    Put(head, 1, 1, 1, "kv", static_cast<uint8_t>(reserved));
    CHECK_FALSE(Accepts(FrameType::kRequest, head));
  }
}

TEST_CASE("a head has at most 64 fields") {
  Bytes head = Encoded(Plain(FrameType::kRequest));
  for (size_t i = 0; i < kMaxFields; ++i) Put(head, FieldKind::kMetadata, "k", "");
  CHECK(Accepts(FrameType::kRequest, head));
  Put(head, FieldKind::kMetadata, "k", "");
  CHECK_FALSE(Accepts(FrameType::kRequest, head));
}

// ---- golden bytes ----

std::string Hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0 && i % 8 == 0) hex += ' ';
    hex += kDigits[std::to_integer<unsigned>(bytes[i]) >> 4];
    hex += kDigits[std::to_integer<unsigned>(bytes[i]) & 15];
  }
  return hex;
}

std::string Built(const FrameHeader& header, const std::vector<Field>& fields) {
  BufferPool pool;
  HeadBuilder builder(pool);
  for (const Field& field : fields) REQUIRE(builder.Add(field).ok());
  const Head head = builder.Finish(header);
  CHECK(CheckFields(header.type, head.bytes()).ok());
  return Hex(head.bytes());
}

TEST_CASE("one head of each type, byte for byte") {
  const std::string limits(
      "\x00\x01\x02\x03\x04\x05\x06\x07\x10\x11\x12\x13\x14\x15\x16\x17"
      "\x20\x21\x22\x23\x00\x00\x00\x00\x30\x31\x32\x33\x34\x35\x36\x37",
      32);
  CHECK(Built({.type = FrameType::kHello, .sequence = 0x00020001, .method = kHelloMagic},
              {{FieldKind::kLimits, "", limits},
               {FieldKind::kOffer, "a", "b"},
               {FieldKind::kAuthentication, "", "s3"}}) ==
        "0100000001000200 0000000000000000 46415243414c4c31 0000000000000000 "
        "0400000020000000 0001020304050607 1011121314151617 2021222300000000 3031323334353637 "
        "0500010001000000 6162060000000200 00007333");
  CHECK(Built({.type = FrameType::kRequest,
               .call = 0x1122334455667788,
               .method = 0x99aabbccddeeff00,
               .timeout_ns = 0x0102030405060708},
              {{FieldKind::kMetadata, std::string_view("k\0", 2), std::string_view("\0v\xff", 3)},
               {FieldKind::kMetadata, "k", ""}}) ==
        "0200000000000000 8877665544332211 00ffeeddccbbaa99 0807060504030201 "
        "0100020003000000 6b000076ff010001 00000000006b");
  CHECK(Built({.type = FrameType::kReply, .flags = kFlagNotRun, .status = 14, .call = 0x2a},
              {{FieldKind::kMetadata, "m", "1"},
               {FieldKind::kStatusMessage, "", "no"},
               {FieldKind::kStatusPayload, "u", ""}}) ==
        "03010e0000000000 2a00000000000000 0000000000000000 0000000000000000 "
        "0100010001000000 6d31020000000200 00006e6f03000100 0000000075");
  CHECK(Built({.type = FrameType::kCancel, .call = 0x0807060504030201}, {}) ==
        "0400000000000000 0102030405060708 0000000000000000 0000000000000000");
  CHECK(Built({.type = FrameType::kPing, .call = 1}, {}) ==
        "0500000000000000 0100000000000000 0000000000000000 0000000000000000");
  CHECK(Built({.type = FrameType::kPong, .call = 1}, {}) ==
        "0600000000000000 0100000000000000 0000000000000000 0000000000000000");
  CHECK(
      Built({.type = FrameType::kGoAway, .status = 3}, {{FieldKind::kStatusMessage, "", "why"}}) ==
      "0700030000000000 0000000000000000 0000000000000000 0000000000000000 "
      "0200000003000000 776879");
}

// ---- HeadBuilder ----

TEST_CASE("a builder keeps keys and values of any bytes, in order, repeats too") {
  BufferPool pool;
  HeadBuilder builder(pool);
  const std::vector<std::pair<std::string, std::string>> entries = {
      {std::string("\0", 1), std::string("\0\0\r\n", 4)},
      {"same", "1"},
      {"same", ""},
      {std::string(255, '\xff'), std::string(500, '\x80')}};
  for (const auto& [key, value] : entries) {
    REQUIRE(builder.Add({FieldKind::kMetadata, key, value}).ok());
  }
  const Head head = builder.Finish({.type = FrameType::kRequest, .timeout_ns = 1});
  REQUIRE(CheckFields(FrameType::kRequest, head.bytes()).ok());
  FieldReader fields(head.bytes());
  size_t at = 0;
  for (Field field; fields.Next(field); ++at) {
    REQUIRE(at < entries.size());
    CHECK(field.kind == FieldKind::kMetadata);
    CHECK(field.key == entries[at].first);
    CHECK(field.value == entries[at].second);
  }
  CHECK(at == entries.size());
}

TEST_CASE("a builder holds the limits and is unchanged by what it refuses") {
  BufferPool pool;
  HeadBuilder builder(pool);
  REQUIRE(builder.Add({FieldKind::kMetadata, "first", "1"}).ok());
  const size_t before = builder.size();
  const std::string exact(kMaxHeadBytes - before - kFieldPrefixBytes - 1, 'x');
  const absl::Status large = builder.Add({FieldKind::kMetadata, "k", exact + "y"});
  CHECK(large.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(large.message()).find("4096") != std::string::npos);
  CHECK(builder.Add({FieldKind::kMetadata, "k", std::string(100'000, 'x')}).code() ==
        absl::StatusCode::kResourceExhausted);
  CHECK(builder.Add({FieldKind::kMetadata, "", "x"}).code() == absl::StatusCode::kInvalidArgument);
  CHECK(builder.Add({FieldKind::kMetadata, std::string(256, 'k'), "x"}).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(builder.Add({FieldKind::kStatusPayload, std::string(65536, 'k'), ""}).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(builder.Add({FieldKind::kStatusPayload, std::string(65535, 'k'), ""}).code() ==
        absl::StatusCode::kResourceExhausted);
  CHECK(builder.Add({FieldKind::kStatusMessage, "key", ""}).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(builder.size() == before);
  CHECK(builder.Add({FieldKind::kMetadata, "k", exact}).ok());
  CHECK(builder.size() == kMaxHeadBytes);
  const Head head = builder.Finish({.type = FrameType::kRequest, .timeout_ns = 1});
  CHECK(DecodeHeader(head.bytes()).ok());
  CHECK(CheckFields(FrameType::kRequest, head.bytes()).ok());
}

TEST_CASE("a head holds the memory that it needs") {
  struct Case {
    size_t value_bytes;  // a field of 8 bytes of prefix, beside 32 of header
    size_t fields, holds;
  };
  for (const Case& at : {Case{24, 1, 0}, Case{25, 1, 256}, Case{216, 1, 256}, Case{217, 1, 512},
                         Case{100, 3, 512}, Case{4056, 1, 4096}, Case{30, 60, 4096}}) {
    CAPTURE(at.value_bytes, at.fields);
    BufferPool pool;
    HeadBuilder builder(pool);
    const std::string value(at.value_bytes, 'v');
    for (size_t i = 0; i < at.fields; ++i) {
      REQUIRE(builder.Add({FieldKind::kStatusMessage, {}, value}).ok());
    }
    CHECK(pool.stats().leased_bytes == at.holds);
    const Head head = builder.Finish({.type = FrameType::kReply, .status = 1});
    CHECK(head.spilled_bytes() == at.holds);
    FieldReader fields(head.bytes());
    size_t seen = 0;
    for (Field field; fields.Next(field); ++seen) CHECK(field.value == value);
    CHECK(seen == at.fields);
  }
}

TEST_CASE("a builder takes 64 fields and names the limit for the next") {
  BufferPool pool;
  HeadBuilder builder(pool);
  for (size_t i = 0; i < kMaxFields; ++i) {
    REQUIRE(builder.Add({FieldKind::kMetadata, "k", ""}).ok());
  }
  const size_t before = builder.size();
  const absl::Status more = builder.Add({FieldKind::kMetadata, "k", ""});
  CHECK(more.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(more.message()).find("64") != std::string::npos);
  CHECK(builder.size() == before);
}

TEST_CASE("small heads need no pool; a dry pool is told and leaves the builder as it was") {
  BufferPool dry({.name = "dry", .max_bytes = 0});
  HeadBuilder builder(dry);
  const std::string fits(Head::kInlineBytes - kFrameHeaderBytes - kFieldPrefixBytes - 1, 'x');
  REQUIRE(builder.Add({FieldKind::kMetadata, "k", fits}).ok());
  CHECK(builder.size() == Head::kInlineBytes);
  const absl::Status refused = builder.Add({FieldKind::kMetadata, "k", ""});
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(builder.size() == Head::kInlineBytes);
  const Head head = builder.Finish({.type = FrameType::kRequest, .timeout_ns = 1});
  CHECK(CheckFields(FrameType::kRequest, head.bytes()).ok());
  CHECK(dry.stats().allocations == 0);
}

TEST_CASE("a large head's memory goes back to the pool with it") {
  BufferPool pool;
  {
    HeadBuilder builder(pool);
    REQUIRE(builder.Add({FieldKind::kMetadata, "k", std::string(100, 'x')}).ok());
    CHECK(pool.stats().leased_bytes > 0);
    Head head = builder.Finish({.type = FrameType::kRequest, .timeout_ns = 1});
    Head moved = std::move(head);
    CHECK(moved.size() == kFrameHeaderBytes + kFieldPrefixBytes + 1 + 100);
    CHECK(head.size() == 0);  // NOLINT(bugprone-use-after-move): that is the promise
    CHECK(CheckFields(FrameType::kRequest, moved.bytes()).ok());
  }
  CHECK(pool.stats().leased_bytes == 0);
}

// ---- anything at all ----

// Builds the fields of `head` anew.
Bytes Rebuilt(BufferPool& pool, const FrameHeader& header, const Bytes& head) {
  HeadBuilder builder(pool);
  FieldReader fields(head);
  for (Field field; fields.Next(field);) REQUIRE(builder.Add(field).ok());
  const Head again = builder.Finish(header);
  return Bytes(again.bytes().begin(), again.bytes().end());
}

TEST_CASE("random and mutated heads are refused, or are what a builder would write") {
  constexpr uint32_t kSeed = 20240607;
  CAPTURE(kSeed);
  std::mt19937 random(kSeed);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random()) % bound; };
  BufferPool pool;
  int accepted = 0;
  for (int round = 0; round < 100'000; ++round) {
    Bytes head;
    if (round % 4 == 0) {
      head.resize(below(200));
      for (std::byte& byte : head) byte = static_cast<std::byte>(random());
      if (!head.empty()) head[0] = static_cast<std::byte>(1 + below(7));
    } else {
      head = RichHead(kTypes[below(kTypes.size())]).first;
      for (size_t changes = below(4); changes > 0; --changes) {
        head[below(head.size())] = static_cast<std::byte>(below(3) == 0 ? random() : below(8));
      }
      if (below(4) == 0) head.resize(below(head.size() + 20));
    }
    const absl::StatusOr<FrameHeader> header = DecodeHeader(head);
    if (!header.ok() || !CheckFields(header->type, head).ok()) continue;
    ++accepted;
    if (Rebuilt(pool, *header, head) != head) FAIL("round " << round << ": " << Hex(head));
  }
  CHECK(accepted > 1000);
  CHECK(accepted < 100'000);
  CHECK(pool.stats().leased_bytes == 0);
}

}  // namespace
}  // namespace farcall
