// HELLO: what two peers tell each other first, and what is refused.

#include "farcall/rpc/hello.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "farcall/rpc/bytes.h"

namespace farcall {
namespace {

// Reads a head the way a session does.
absl::StatusOr<Hello> Read(std::span<const std::byte> head) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(head);
  if (!header.ok()) return header.status();
  if (absl::Status checked = CheckFields(header->type, head); !checked.ok()) return checked;
  return DecodeHello(*header, head);
}

std::vector<std::byte> Encoded(const Hello& hello) {
  BufferPool pool;
  const absl::StatusOr<Head> head = EncodeHello(hello, pool);
  REQUIRE(head.ok());
  return {head->bytes().begin(), head->bytes().end()};
}

constexpr size_t kLimitsAt = kFrameHeaderBytes + kFieldPrefixBytes;

TEST_CASE("HELLO comes back as it was said") {
  Hello hello;
  hello.max_version = 9;
  hello.max_body_bytes = UINT64_MAX;
  hello.max_attachment_bytes = 0;
  hello.max_calls_in_flight = UINT32_MAX;
  hello.features = uint64_t{1} << 63;
  hello.offers = {{"rdma", std::string("\0\1", 2)}, {"shm", ""}, {"rdma", "again"}};
  hello.authentication = std::string("s3\0cret", 7);
  hello.token = std::string("t\0\xff", 3);
  const absl::StatusOr<Hello> read = Read(Encoded(hello));
  REQUIRE(read.ok());
  CHECK(read->min_version == 1);
  CHECK(read->max_version == 9);
  CHECK(read->max_body_bytes == UINT64_MAX);
  CHECK(read->max_attachment_bytes == 0);
  CHECK(read->max_calls_in_flight == UINT32_MAX);
  CHECK(read->features == uint64_t{1} << 63);
  CHECK(read->offers == hello.offers);
  CHECK(read->authentication == hello.authentication);
  CHECK(read->token == hello.token);
}

TEST_CASE("a plain HELLO is a header and the limits") {
  CHECK(Encoded({}).size() == kFrameHeaderBytes + kFieldPrefixBytes + 32);
  CHECK(Read(Encoded({})).ok());
}

TEST_CASE("versions must overlap; the refusal names both ranges") {
  struct Range {
    uint16_t min, max;
    bool common;
  };
  for (const Range range :
       {Range{1, 1, true}, Range{0, 1, true}, Range{1, 65535, true}, Range{0, 65535, true},
        Range{0, 0, false}, Range{2, 2, false}, Range{2, 65535, false}, Range{65535, 65535, false},
        Range{1, 0, false}, Range{2, 1, false}, Range{65535, 0, false}}) {
    Hello hello;
    hello.min_version = range.min;
    hello.max_version = range.max;
    const absl::StatusOr<Hello> read = Read(Encoded(hello));
    CHECK(read.ok() == range.common);
    if (read.ok()) continue;
    CHECK(read.status().code() == absl::StatusCode::kFailedPrecondition);
    const std::string message(read.status().message());
    CHECK(message.find(std::to_string(range.min) + " to " + std::to_string(range.max)) !=
          std::string::npos);
  }
}

TEST_CASE("another magic number is no HELLO of Farcall") {
  std::vector<std::byte> head = Encoded({});
  for (size_t bit = 0; bit < 64; ++bit) {
    std::vector<std::byte> other = head;
    other[16 + bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    CHECK(Read(other).status().code() == absl::StatusCode::kInvalidArgument);
  }
  BufferPool pool;
  const Head ping = HeadBuilder(pool).Finish({.type = FrameType::kPing});
  CHECK(Read(ping.bytes()).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("limits must be there, once, 32 bytes long, their reserved word 0") {
  BufferPool pool;
  const FrameHeader header{
      .type = FrameType::kHello, .sequence = 0x00010001, .method = kHelloMagic};
  for (const size_t bytes : {0, 1, 31, 32, 33, 1000}) {
    HeadBuilder builder(pool);
    const std::string value(bytes, '\0');
    REQUIRE(builder.Add({FieldKind::kLimits, "", value}).ok());
    const Head head = builder.Finish(header);
    const absl::StatusOr<Hello> read = Read(head.bytes());
    CHECK(read.ok() == (bytes == 32));
    if (!read.ok()) CHECK(read.status().code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK(Read(HeadBuilder(pool).Finish(header).bytes()).status().code() ==
        absl::StatusCode::kInvalidArgument);
  for (size_t byte = 20; byte < 24; ++byte) {
    std::vector<std::byte> head = Encoded({});
    head[kLimitsAt + byte] = std::byte{0x80};
    CHECK(Read(head).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("features that nobody knows are taken and ignored") {
  std::vector<std::byte> head = Encoded({});
  for (size_t byte = 24; byte < 32; ++byte) head[kLimitsAt + byte] = std::byte{0xff};
  const absl::StatusOr<Hello> read = Read(head);
  REQUIRE(read.ok());
  CHECK(read->features == UINT64_MAX);
}

TEST_CASE("a token has 1 to 64 bytes") {
  Hello hello;
  for (const size_t bytes : {size_t{1}, kMaxTokenBytes, kMaxTokenBytes + 1}) {
    hello.token = std::string(bytes, 't');
    CHECK(Read(Encoded(hello)).ok() == (bytes <= kMaxTokenBytes));
  }
  std::vector<std::byte> empty = Encoded({});
  empty.push_back(std::byte{static_cast<uint8_t>(FieldKind::kToken)});
  empty.resize(empty.size() + kFieldPrefixBytes - 1);
  CHECK(Read(empty).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("what does not fit a head is refused before it is sent") {
  BufferPool pool;
  Hello hello;
  hello.authentication = std::string(5000, 'x');
  CHECK(EncodeHello(hello, pool).status().code() == absl::StatusCode::kResourceExhausted);
  hello.authentication.clear();
  hello.offers = {{"", "an offer without a name"}};
  CHECK(EncodeHello(hello, pool).status().code() == absl::StatusCode::kInvalidArgument);
  BufferPool dry({.name = "dry", .max_bytes = 0});
  hello.offers.clear();
  CHECK_FALSE(EncodeHello(hello, dry).ok());  // limits do not fit a head's own bytes
  CHECK(pool.stats().leased_bytes == 0);
}

}  // namespace
}  // namespace farcall
