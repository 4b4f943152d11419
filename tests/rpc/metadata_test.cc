// Metadata and statuses on their way through a head.

#include "farcall/rpc/metadata.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "farcall/rpc/bytes.h"

namespace farcall {
namespace {

// A reply's head with `status`, behind `metadata`.
Head Reply(BufferPool& pool, const absl::Status& status, const Metadata& metadata = {}) {
  HeadBuilder builder(pool);
  REQUIRE(AddMetadata(metadata, builder).ok());
  AddStatus(status, builder);
  Head head = builder.Finish(
      {.type = FrameType::kReply, .status = static_cast<uint16_t>(status.code()), .call = 1});
  REQUIRE(DecodeHeader(head.bytes()).ok());
  REQUIRE(CheckFields(FrameType::kReply, head.bytes()).ok());
  return head;
}

absl::Status Read(const Head& head) {
  return ReadStatus(*DecodeHeader(head.bytes()), head.bytes());
}

TEST_CASE("metadata is found by its first entry and visited in order") {
  BufferPool pool;
  HeadBuilder builder(pool);
  const Metadata metadata = {{"b", "1"}, {"a", std::string("\0x", 2)}, {"b", "2"}, {"c", ""}};
  REQUIRE(AddMetadata(metadata, builder).ok());
  const Head head = builder.Finish({.type = FrameType::kRequest, .timeout_ns = 1});
  const MetadataView view(head.bytes());
  CHECK(view.Find("b") == "1");
  CHECK(view.Find("a") == std::string_view("\0x", 2));
  CHECK(view.Find("c") == "");
  CHECK_FALSE(view.Find("d").has_value());
  CHECK(metadata.Find("b") == "1");
  CHECK_FALSE(metadata.Find("").has_value());
  std::vector<std::pair<std::string, std::string>> visited;
  view.ForEach(
      [&](std::string_view key, std::string_view value) { visited.emplace_back(key, value); });
  CHECK(visited ==
        std::vector<std::pair<std::string, std::string>>(metadata.begin(), metadata.end()));
  const Metadata copy = view.ToMetadata();
  CHECK(std::equal(copy.begin(), copy.end(), metadata.begin(), metadata.end()));
}

TEST_CASE("a view of nothing is empty") {
  const MetadataView nothing;
  CHECK_FALSE(nothing.Find("k").has_value());
  CHECK(nothing.ToMetadata().empty());
}

TEST_CASE("a view sees metadata only, whatever else is in the head") {
  BufferPool pool;
  absl::Status status = absl::NotFoundError("k");
  status.SetPayload("k", absl::Cord("payload"));
  const Head head = Reply(pool, status, {{"m", "1"}});
  const MetadataView view(head.bytes());
  CHECK_FALSE(view.Find("k").has_value());
  CHECK(view.ToMetadata().size() == 1);
}

TEST_CASE("a status comes back whole: every code, any bytes, all payloads") {
  BufferPool pool;
  for (int code = 1; code <= 16; ++code) {
    absl::Status status(static_cast<absl::StatusCode>(code), absl::string_view("a\0b\xff\n", 5));
    status.SetPayload("type.example/one", absl::Cord(absl::string_view("\0\0", 2)));
    status.SetPayload("type.example/two", absl::Cord(""));
    CHECK(Read(Reply(pool, status, {{"beside", "it"}})) == status);
  }
  CHECK(Read(Reply(pool, absl::OkStatus())).ok());
  const absl::Status bare(absl::StatusCode::kAborted, "");
  CHECK(Read(Reply(pool, bare)) == bare);
  CHECK(pool.stats().leased_bytes == 0);
}

TEST_CASE("a message that does not fit loses its tail, and payloads make way for it") {
  BufferPool pool;
  const std::string text(10'000, 'm');
  absl::Status status = absl::DataLossError(text);
  status.SetPayload("small", absl::Cord("payload"));
  const Head head = Reply(pool, status);
  CHECK(head.size() == kMaxHeadBytes);
  const absl::Status read = Read(head);
  CHECK(read.code() == absl::StatusCode::kDataLoss);
  CHECK(std::string(read.message()) ==
        text.substr(0, kMaxHeadBytes - kFrameHeaderBytes - kFieldPrefixBytes));
  CHECK_FALSE(read.GetPayload("small").has_value());
}

TEST_CASE("a payload that does not fit is left out, and smaller ones still arrive") {
  BufferPool pool;
  absl::Status status = absl::InternalError("message");
  status.SetPayload("large", absl::Cord(std::string(5000, 'x')));
  status.SetPayload("small", absl::Cord("payload"));
  status.SetPayload("", absl::Cord("a payload without a name cannot be said on the wire"));
  const absl::Status read = Read(Reply(pool, status));
  CHECK(read.message() == "message");
  CHECK_FALSE(read.GetPayload("large").has_value());
  CHECK(read.GetPayload("small") == absl::Cord("payload"));
}

TEST_CASE("the code arrives when nothing else has room") {
  BufferPool pool;
  const absl::Status status = absl::PermissionDeniedError("message");
  Metadata full;  // as many fields as a head may have
  for (size_t i = 0; i < kMaxFields; ++i) full.Add("k", "");
  CHECK(Read(Reply(pool, status, full)) == absl::Status(status.code(), ""));
  // As many bytes as a head may have, and a few less than a message's prefix needs.
  for (size_t left = 0; left <= kFieldPrefixBytes; ++left) {
    const Metadata large = {
        {"k", std::string(kMaxHeadBytes - kFrameHeaderBytes - kFieldPrefixBytes - 1 - left, 'x')}};
    CHECK(Read(Reply(pool, status, large)) == absl::Status(status.code(), ""));
  }
  BufferPool dry({.name = "dry", .max_bytes = 0});
  CHECK(Read(Reply(dry, absl::PermissionDeniedError(std::string(100, 'x')))).code() ==
        absl::StatusCode::kPermissionDenied);
}

TEST_CASE("metadata that does not fit is refused and names the limit") {
  BufferPool pool;
  HeadBuilder builder(pool);
  const absl::Status refused = AddMetadata({{"k", std::string(4096, 'x')}}, builder);
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(refused.message()).find("4096") != std::string::npos);
}

}  // namespace
}  // namespace farcall
