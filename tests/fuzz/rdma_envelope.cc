// A SEND as it was received, and a connection's private data. Whatever decodes encodes to the same
// bytes, and nothing that it says lies outside of what was received.

#include "farcall/rpc/bytes.h"
#include "farcall/tests/fuzz/target.h"
#include "farcall/transports/rdma/envelope.h"

namespace farcall::fuzz {
namespace {

using rdma::Envelope;
using rdma::Kind;
using rdma::Layout;

std::string Seed(const Envelope& envelope) {
  const Layout layout = rdma::LayoutOf(envelope.kind, envelope.head, envelope.sizes);
  std::string bytes(layout.end, '\0');
  rdma::EncodeEnvelope(envelope, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string Seed(const rdma::Parameters& parameters) {
  const rdma::ParametersBytes bytes = rdma::EncodeParameters(parameters);
  return std::string(AsView(bytes));
}

void CheckRegion(const rdma::Region& region, uint64_t bytes) {
  if (bytes == 0) FUZZ_CHECK(region == rdma::Region{});
  FUZZ_CHECK(region.address + bytes >= region.address);
}

void CheckSend(std::span<const std::byte> received) {
  Envelope envelope;
  if (!rdma::DecodeEnvelope(received, envelope).ok()) return;
  const uint64_t payload = envelope.payload();
  FUZZ_CHECK(payload >= envelope.sizes.body && payload >= envelope.sizes.attachment);
  FUZZ_CHECK(envelope.head <= kMaxHeadBytes);
  const Layout layout = rdma::LayoutOf(envelope.kind, envelope.head, envelope.sizes);
  FUZZ_CHECK(layout.end == received.size());
  std::vector<std::byte> again(received.begin(), received.end());
  std::fill_n(again.begin(), layout.head, std::byte{0xee});
  rdma::EncodeEnvelope(envelope, again);
  FUZZ_CHECK(AsView(again) == AsView(received));
  if (envelope.kind != Kind::kMessage) {
    FUZZ_CHECK(layout.head + envelope.head == received.size());
    CheckRegion(envelope.body, envelope.sizes.body);
    CheckRegion(envelope.attachment, envelope.sizes.attachment);
    return;
  }
  FUZZ_CHECK(layout.head + envelope.head <= received.size());
  for (const auto& [at, bytes] : {std::pair(layout.body, envelope.sizes.body),
                                  std::pair(layout.attachment, envelope.sizes.attachment)}) {
    FUZZ_CHECK(at % kBufferAlignment == 0);
    if (bytes != 0) FUZZ_CHECK(at <= received.size() && bytes <= received.size() - at);
  }
  if (received.size() <= rdma::kMaxReceiveBytes) {
    const auto size = static_cast<uint32_t>(received.size());
    FUZZ_CHECK(rdma::EagerLayout(envelope.head, envelope.sizes, size).has_value());
    FUZZ_CHECK(!rdma::EagerLayout(envelope.head, envelope.sizes, size - 1).has_value());
  }
}

void CheckParameters(std::span<const std::byte> bytes) {
  rdma::Parameters parameters;
  if (!rdma::DecodeParameters(bytes, parameters).ok()) return;
  const rdma::ParametersBytes again = rdma::EncodeParameters(parameters);
  FUZZ_CHECK(AsView(again) == AsView(bytes.first(rdma::kParametersBytes)));
  FUZZ_CHECK(parameters.receive_depth >= rdma::kMinReceiveDepth);
  FUZZ_CHECK(parameters.receive_bytes >= rdma::kMinReceiveBytes);
  FUZZ_CHECK(parameters.max_transfers >= 1);
}

}  // namespace

std::vector<std::string> Seeds() {
  const uint64_t max = ~uint64_t{0};
  return {
      Seed(rdma::Parameters{}),
      Seed(rdma::Parameters{rdma::kMinReceiveDepth, rdma::kMinReceiveBytes, 1}) +
          std::string(24, 'x'),
      Seed(Envelope{.kind = Kind::kMessage}),
      Seed(Envelope{.kind = Kind::kMessage, .reposts = ~uint32_t{0}, .head = 32, .sizes = {32, 0}}),
      Seed(Envelope{.kind = Kind::kMessage, .head = 33, .sizes = {1, 65}}),
      Seed(Envelope{.kind = Kind::kMessage, .head = 100, .sizes = {0, 200}}),
      Seed(Envelope{.kind = Kind::kRts,
                    .transfer = 1,
                    .head = 32,
                    .sizes = {1 << 20, 1},
                    .body = {1 << 12, 7},
                    .attachment = {max - 1, ~uint32_t{0}}}),
      Seed(Envelope{.kind = Kind::kRts, .transfer = 1, .sizes = {0, max}}),
      Seed(Envelope{.kind = Kind::kFin, .reposts = 64, .transfer = 1, .status = 8}),
      Seed(Envelope{.kind = Kind::kCancel, .transfer = 1}),
      Seed(Envelope{.kind = Kind::kCredit, .reposts = 32}),
  };
}

void Run(Input input) {
  const auto bytes = std::as_bytes(std::span(input.rest()));
  CheckSend(bytes);
  CheckParameters(bytes);
}

}  // namespace farcall::fuzz
