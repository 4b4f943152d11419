// A message's head: header, fields, metadata, status and outcome, HELLO. Whatever decodes encodes
// to the same bytes, or to what decodes equally.

#include "absl/strings/cord.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/hello.h"
#include "farcall/rpc/metadata.h"
#include "farcall/rpc/outcome.h"
#include "farcall/tests/fuzz/target.h"

namespace farcall::fuzz {
namespace {

BufferPool& Pool() {
  static auto* pool = new BufferPool;
  return *pool;
}

std::string TextOf(const Head& head) { return std::string(AsView(head.bytes())); }

void CheckHeader(const FrameHeader& header, std::string_view head) {
  std::byte again[kFrameHeaderBytes];
  EncodeHeader(header, again);
  FUZZ_CHECK(AsView(again) == head.substr(0, kFrameHeaderBytes));
}

// There is one way to write a run of fields.
void CheckFieldsAgain(const FrameHeader& header, std::string_view head) {
  HeadBuilder builder(Pool());
  FieldReader fields(std::as_bytes(std::span(head)));
  for (Field field; fields.Next(field);) FUZZ_CHECK(builder.Add(field).ok());
  FUZZ_CHECK(TextOf(builder.Finish(header)) == head);
}

void CheckMetadata(const FrameHeader& header, std::span<const std::byte> head) {
  const MetadataView view(head);
  const Metadata metadata = view.ToMetadata();
  for (const auto& [key, value] : metadata) {
    FUZZ_CHECK(!key.empty() && key.size() <= kMaxMetadataKeyBytes);
    FUZZ_CHECK(view.Find(key) == metadata.Find(key));
  }
  HeadBuilder builder(Pool());
  FUZZ_CHECK(AddMetadata(metadata, builder).ok());
  const Head again = builder.Finish(header);
  const Metadata same = MetadataView(again.bytes()).ToMetadata();
  FUZZ_CHECK(std::equal(metadata.begin(), metadata.end(), same.begin(), same.end()));
}

void CheckStatus(const FrameHeader& header, std::span<const std::byte> head) {
  const absl::Status status = ReadStatus(header, head);
  FUZZ_CHECK(static_cast<int>(status.code()) == header.status);
  HeadBuilder builder(Pool());
  AddStatus(status, builder);
  const Head again = builder.Finish(header);
  FUZZ_CHECK(DecodeHeader(again.bytes()).ok());
  FUZZ_CHECK(CheckFields(header.type, again.bytes()).ok());
  FUZZ_CHECK(ReadStatus(header, again.bytes()) == status);
  if (status.ok()) return;
  absl::Status bare = status;
  bare.ErasePayload(kOutcomePayload);
  for (const Outcome outcome :
       {Outcome::kNotSent, Outcome::kNotRun, Outcome::kUnknown, Outcome::kAnswered}) {
    const absl::Status told = WithOutcome(bare, outcome);
    FUZZ_CHECK(told.code() == bare.code());
    FUZZ_CHECK(OutcomeOf(told) == outcome);
  }
}

void CheckHello(const FrameHeader& header, std::span<const std::byte> head) {
  const absl::StatusOr<Hello> hello = DecodeHello(header, head);
  if (!hello.ok()) return;
  FUZZ_CHECK(hello->min_version <= kProtocolVersion && hello->max_version >= kProtocolVersion);
  // Fields of a HELLO may come in any order; an empty authentication is none.
  const absl::StatusOr<Head> encoded = EncodeHello(*hello, Pool());
  FUZZ_CHECK(encoded.ok());
  const absl::StatusOr<FrameHeader> header_again = DecodeHeader(encoded->bytes());
  FUZZ_CHECK(header_again.ok() && CheckFields(FrameType::kHello, encoded->bytes()).ok());
  const absl::StatusOr<Hello> again = DecodeHello(*header_again, encoded->bytes());
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(again->min_version == hello->min_version && again->max_version == hello->max_version);
  FUZZ_CHECK(again->max_body_bytes == hello->max_body_bytes);
  FUZZ_CHECK(again->max_attachment_bytes == hello->max_attachment_bytes);
  FUZZ_CHECK(again->max_calls_in_flight == hello->max_calls_in_flight);
  FUZZ_CHECK(again->features == hello->features);
  FUZZ_CHECK(again->offers == hello->offers);
  FUZZ_CHECK(again->authentication == hello->authentication);
  FUZZ_CHECK(again->token == hello->token);
}

std::string Seed(const FrameHeader& header, const std::vector<Field>& fields = {}) {
  HeadBuilder builder(Pool());
  for (const Field& field : fields) FUZZ_CHECK(builder.Add(field).ok());
  return TextOf(builder.Finish(header));
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string binary("\0\r\n\xff", 4);
  Hello hello;
  hello.max_body_bytes = 1 << 30;
  hello.max_attachment_bytes = ~uint64_t{0};
  hello.max_calls_in_flight = 4096;
  hello.features = 1;
  hello.offers = {{"rdma", "10.0.0.1:7001"}, {"shm", binary}};
  hello.authentication = "token";
  hello.token = binary;
  absl::Status status = absl::NotFoundError("no such thing");
  status.SetPayload("a/b", absl::Cord(binary));
  HeadBuilder failed(Pool());
  AddStatus(WithOutcome(status, Outcome::kUnknown), failed);
  return {
      TextOf(*EncodeHello(hello, Pool())),
      Seed({.type = FrameType::kRequest, .call = 7, .method = 99, .timeout_ns = 1'000'000'000},
           {{FieldKind::kMetadata, "key", "value"},
            {FieldKind::kMetadata, binary, ""},
            {FieldKind::kMetadata, std::string(255, 'k'), std::string(3000, 'v')}}),
      Seed({.type = FrameType::kReply, .call = 7}, {{FieldKind::kMetadata, "key", "value"}}),
      TextOf(
          failed.Finish({.type = FrameType::kReply, .flags = kFlagNotRun, .status = 5, .call = 7})),
      Seed({.type = FrameType::kCancel, .call = 7}),
      Seed({.type = FrameType::kPing, .call = 1}),
      Seed({.type = FrameType::kPong, .call = 1}),
      Seed({.type = FrameType::kOffers}),
      Seed({.type = FrameType::kOffers},
           {{FieldKind::kOffer, "shm", binary}, {FieldKind::kOffer, "rdma", "x"}}),
      Seed({.type = FrameType::kProbe, .call = 7}),
      Seed({.type = FrameType::kGoAway, .status = 14}, {{FieldKind::kStatusMessage, "", "bye"}}),
      Seed({.type = FrameType::kReply}, std::vector<Field>(64, {FieldKind::kMetadata, "k", ""})),
  };
}

void Run(Input input) {
  const std::string_view text = input.rest();
  const auto head = std::as_bytes(std::span(text));
  const absl::StatusOr<FrameHeader> header = DecodeHeader(head);
  if (!header.ok()) return;
  CheckHeader(*header, text);
  if (!CheckFields(header->type, head).ok()) return;
  CheckFieldsAgain(*header, text);
  CheckMetadata(*header, head);
  CheckStatus(*header, head);
  CheckHello(*header, head);
  FUZZ_CHECK(Pool().stats().leased_bytes == 0);
}

}  // namespace farcall::fuzz
