#include "farcall/transports/rdma/envelope.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace farcall::rdma {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

// A SEND with `envelope` in front, as long as it says, the parts full of 0xab.
std::vector<std::byte> Encode(const Envelope& envelope) {
  const Layout layout = LayoutOf(envelope.kind, envelope.head, envelope.sizes);
  std::vector<std::byte> bytes(layout.end);
  const auto fill = [&bytes](size_t at, size_t size) {
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), size, std::byte{0xab});
  };
  fill(layout.head, envelope.head);
  if (envelope.kind == Kind::kMessage) {
    fill(layout.body, envelope.sizes.body);
    fill(layout.attachment, envelope.sizes.attachment);
  }
  EncodeEnvelope(envelope, bytes);
  return bytes;
}

std::string Refusal(std::span<const std::byte> bytes) {
  Envelope envelope;
  return std::string(DecodeEnvelope(bytes, envelope).message());
}

// What is said of an envelope whose SEND is only its front.
std::string FrontRefusal(const Envelope& envelope) {
  std::vector<std::byte> bytes(envelope.kind == Kind::kRts ? kEnvelopeBytes + kOfferBytes
                                                           : kEnvelopeBytes);
  EncodeEnvelope(envelope, bytes);
  return Refusal(bytes);
}

Envelope Rts(uint64_t body, uint64_t attachment) {
  return {.kind = Kind::kRts,
          .transfer = 7,
          .sizes = {body, attachment},
          .body = body == 0 ? Region{} : Region{0x1000, 1},
          .attachment = attachment == 0 ? Region{} : Region{0x2000, 2}};
}

TEST_CASE("an envelope comes back as it was written") {
  const std::vector<Envelope> envelopes = {
      {.kind = Kind::kMessage},
      {.kind = Kind::kMessage, .reposts = ~uint32_t{0}, .head = 32, .sizes = {32, 0}},
      {.kind = Kind::kMessage, .head = kMaxHeadBytes, .sizes = {1, 1}},
      {.kind = Kind::kMessage, .head = 33, .sizes = {0, 4000}},
      {.kind = Kind::kMessage, .sizes = {kMaxReceiveBytes, kMaxReceiveBytes}},
      {.kind = Kind::kRts,
       .reposts = 9,
       .transfer = ~uint32_t{0},
       .head = kMaxHeadBytes,
       .sizes = {kMax - 1, 1},
       .body = {1, ~uint32_t{0}},
       .attachment = {kMax - 1, 0}},
      Rts(1, 0),
      Rts(0, kMax - 0x2000),
      {.kind = Kind::kFin, .reposts = 1, .transfer = 1},
      {.kind = Kind::kFin, .transfer = 1, .status = 16},
      {.kind = Kind::kCancel, .transfer = 1},
      {.kind = Kind::kCredit, .reposts = 64},
  };
  for (const Envelope& envelope : envelopes) {
    Envelope back;
    REQUIRE(DecodeEnvelope(Encode(envelope), back).ToString() == "OK");
    CHECK(back == envelope);
  }
}

TEST_CASE("the layout is the one in wire_format.md") {
  Envelope envelope = {.kind = Kind::kRts,
                       .reposts = 0x07060504,
                       .transfer = 0x0b0a0908,
                       .status = 1,
                       .head = 0x0302,
                       .sizes = {0x1716151413121110, 0x1f1e1d1c1b1a1918},
                       .body = {0x2726252423222120, 0x33323130},
                       .attachment = {0x2f2e2d2c2b2a2928, 0x37363534}};
  std::vector<std::byte> bytes(kEnvelopeBytes + kOfferBytes);
  EncodeEnvelope(envelope, bytes);
  std::vector<std::byte> expected;
  for (int i = 0; i < 56; ++i) expected.push_back(static_cast<std::byte>(i));
  expected[0] = std::byte{2};
  for (size_t i = 12; i < 16; ++i) expected[i] = std::byte{0};
  CHECK(bytes == expected);
}

TEST_CASE("body and attachment begin at multiples of 64 and nothing lies between") {
  // A call without metadata needs no padding.
  const Layout call = LayoutOf(Kind::kMessage, 32, {100, 10});
  CHECK(call.head == 32);
  CHECK(call.body == 64);
  CHECK(call.attachment == 192);
  CHECK(call.end == 202);
  for (size_t head = 0; head < 200; ++head) {
    for (const uint64_t body : {0, 1, 63, 64, 65}) {
      for (const uint64_t attachment : {0, 1, 64}) {
        const Layout layout = LayoutOf(Kind::kMessage, head, {body, attachment});
        CHECK(layout.body % kBufferAlignment == 0);
        CHECK(layout.attachment % kBufferAlignment == 0);
        CHECK(layout.body >= layout.head + head);
        CHECK(layout.body < layout.head + head + kBufferAlignment);
        const size_t last = attachment != 0 ? layout.attachment + attachment
                            : body != 0     ? layout.body + body
                                            : layout.head + head;
        CHECK(layout.end == last);
      }
    }
  }
}

TEST_CASE("what fits a receive buffer to the last byte is eager") {
  for (const size_t head : {size_t{0}, size_t{32}, size_t{33}, kMaxHeadBytes}) {
    const uint64_t room = kDefaultReceiveBytes - LayoutOf(Kind::kMessage, head, {1, 0}).body;
    REQUIRE(EagerLayout(head, {room, 0}, kDefaultReceiveBytes).has_value());
    CHECK(EagerLayout(head, {room, 0}, kDefaultReceiveBytes)->end == kDefaultReceiveBytes);
    CHECK_FALSE(EagerLayout(head, {room + 1, 0}, kDefaultReceiveBytes));
    CHECK(EagerLayout(head, {0, room}, kDefaultReceiveBytes));
    CHECK_FALSE(EagerLayout(head, {0, room + 1}, kDefaultReceiveBytes));
    CHECK_FALSE(EagerLayout(head, {room, 1}, kDefaultReceiveBytes));
    CHECK(EagerLayout(head, {room - 64, 64}, kDefaultReceiveBytes));
  }
  for (const uint64_t size : {uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{1} << 63, kMax}) {
    CHECK_FALSE(EagerLayout(0, {size, 0}, kMaxReceiveBytes));
    CHECK_FALSE(EagerLayout(0, {0, size}, kMaxReceiveBytes));
    CHECK_FALSE(EagerLayout(0, {size, kMax}, kMaxReceiveBytes));
  }
}

TEST_CASE("every length but the right one is refused") {
  for (const Envelope& envelope :
       {Envelope{.kind = Kind::kMessage, .head = 40, .sizes = {100, 7}}, Rts(5, 5),
        Envelope{.kind = Kind::kFin, .transfer = 1}, Envelope{.kind = Kind::kCancel, .transfer = 1},
        Envelope{.kind = Kind::kCredit}}) {
    const std::vector<std::byte> whole = Encode(envelope);
    for (size_t size = 0; size < whole.size(); ++size) {
      CHECK_FALSE(Refusal(std::span(whole).first(size)).empty());
    }
    CHECK(Refusal(whole).empty());
    std::vector<std::byte> longer = whole;
    longer.push_back(std::byte{0});
    CHECK(Refusal(longer) == "a SEND is as long as its envelope says, " +
                                 std::to_string(whole.size()) + " bytes, not " +
                                 std::to_string(longer.size()));
  }
  CHECK(Refusal({}) == "a SEND has at least 32 bytes, not 0");
  const std::vector<std::byte> rts = Encode(Rts(5, 5));
  CHECK(Refusal(std::span(rts).first(40)) == "an RTS has at least 56 bytes, not 40");
}

TEST_CASE("every kind but the five is refused, and every field that should be 0") {
  for (int kind = 0; kind < 256; ++kind) {
    std::vector<std::byte> bytes = Encode({.kind = Kind::kCredit});
    bytes[0] = static_cast<std::byte>(kind);
    if (kind < 1 || kind > 5) {
      CHECK(Refusal(bytes) == "the kind of a SEND is 1 to 5, not " + std::to_string(kind));
    }
  }
  for (size_t at = 12; at < 16; ++at) {
    std::vector<std::byte> bytes = Encode({.kind = Kind::kCredit});
    bytes[at] = std::byte{1};
    CHECK(Refusal(bytes).starts_with("the reserved bytes of an envelope are 0, not "));
  }
  for (const Kind kind : {Kind::kFin, Kind::kCancel, Kind::kCredit}) {
    const uint32_t transfer = kind == Kind::kCredit ? 0 : 1;
    CHECK(FrontRefusal({.kind = kind, .transfer = transfer, .head = 1}) ==
          "only a MESSAGE or RTS has a head, not 1");
    CHECK(FrontRefusal({.kind = kind, .transfer = transfer, .sizes = {5, 0}}) ==
          "only a MESSAGE or RTS has a payload, not 5");
    CHECK(FrontRefusal({.kind = kind, .transfer = transfer, .sizes = {0, kMax}}) ==
          "only a MESSAGE or RTS has a payload, not " + std::to_string(kMax));
  }
  for (const Kind kind : {Kind::kMessage, Kind::kCredit}) {
    CHECK(FrontRefusal({.kind = kind, .transfer = 3}) ==
          "the transfer of a MESSAGE or CREDIT is 0, not 3");
  }
  for (const Kind kind : {Kind::kRts, Kind::kFin, Kind::kCancel}) {
    CHECK(FrontRefusal({.kind = kind}) ==
          "the transfer of an RTS, FIN or CANCEL is at least 1, not 0");
  }
  CHECK(FrontRefusal({.kind = Kind::kFin, .transfer = 1, .status = 17}) ==
        "the status of a FIN is 0 to 16 and of others 0, not 17");
  CHECK(FrontRefusal({.kind = Kind::kCancel, .transfer = 1, .status = 1}) ==
        "the status of a FIN is 0 to 16 and of others 0, not 1");
  CHECK(FrontRefusal({.kind = Kind::kMessage, .status = 1}) ==
        "the status of a FIN is 0 to 16 and of others 0, not 1");
}

TEST_CASE("hostile lengths and addresses name the rule") {
  const auto message = [](uint16_t head, uint64_t body, uint64_t attachment) {
    return FrontRefusal({.kind = Kind::kMessage, .head = head, .sizes = {body, attachment}});
  };
  CHECK(message(4097, 0, 0) == "a head is at most 4096 bytes, not 4097");
  CHECK(message(65535, 0, 0) == "a head is at most 4096 bytes, not 65535");
  CHECK(message(0, kMax, 1) == "body and attachment together fit 64 bits, not 1");
  CHECK(message(0, kMax, kMax) ==
        "body and attachment together fit 64 bits, not " + std::to_string(kMax));
  for (const uint64_t size : {uint64_t{33}, uint64_t{1} << 31, (uint64_t{1} << 32) - 1,
                              uint64_t{1} << 32, uint64_t{1} << 63, kMax - 31, kMax - 1, kMax}) {
    const std::string expected =
        "a SEND of 32 bytes has no larger payload, not " + std::to_string(size);
    CHECK(message(0, size, 0) == expected);
    CHECK(message(0, 0, size) == expected);
  }
  CHECK(message(0, 1, 0) == "a SEND is as long as its envelope says, 65 bytes, not 32");

  CHECK(FrontRefusal(Rts(0, 0)) == "the payload of an RTS is at least 1 byte, not 0");
  CHECK(FrontRefusal(Rts(kMax, 1)) == "body and attachment together fit 64 bits, not 1");
  Envelope rts = Rts(0x100, 0x200);
  rts.body.address = kMax - 0x100;
  rts.attachment.address = kMax - 0x200;
  CHECK(FrontRefusal(rts).empty());
  ++rts.attachment.address;
  CHECK(FrontRefusal(rts) == "the end of the attachment that an RTS offers fits 64 bits, not " +
                                 std::to_string(kMax - 0x1ff));
  ++rts.body.address;
  CHECK(FrontRefusal(rts) ==
        "the end of the body that an RTS offers fits 64 bits, not " + std::to_string(kMax - 0xff));
  rts = Rts(0, 1);
  rts.body.rkey = 5;
  CHECK(FrontRefusal(rts) == "an RTS without body has 0 for its address and key, not 5");
  rts = Rts(1, 0);
  rts.attachment.address = 6;
  CHECK(FrontRefusal(rts) == "an RTS without attachment has 0 for its address and key, not 6");
}

TEST_CASE("padding hides nothing") {
  const Envelope envelope = {.kind = Kind::kMessage, .head = 10, .sizes = {70, 70}};
  const Layout layout = LayoutOf(envelope.kind, envelope.head, envelope.sizes);
  size_t padding = 0;
  for (size_t at = layout.head; at < layout.end; ++at) {
    const auto in = [at](size_t from, size_t size) { return at >= from && at < from + size; };
    const bool part = in(layout.head, 10) || in(layout.body, 70) || in(layout.attachment, 70);
    std::vector<std::byte> bytes = Encode(envelope);
    bytes[at] = std::byte{1};
    CHECK(Refusal(bytes) == (part ? "" : "the bytes between two parts are 0, not 1"));
    if (!part) ++padding;
  }
  CHECK(padding == 22 + 58);
  // Without a body the attachment's padding begins at the head's end.
  std::vector<std::byte> bytes = Encode({.kind = Kind::kMessage, .head = 10, .sizes = {0, 1}});
  CHECK(Refusal(bytes).empty());
  bytes[42] = std::byte{1};
  CHECK(Refusal(bytes) == "the bytes between two parts are 0, not 1");
}

// ---- parameters ----

std::string ParametersRefusal(const Parameters& parameters) {
  Parameters back;
  return std::string(DecodeParameters(EncodeParameters(parameters), back).message());
}

TEST_CASE("parameters come back as they were written, padded or not") {
  for (const Parameters& parameters :
       {Parameters{}, Parameters{kMinReceiveDepth, kMinReceiveBytes, 1},
        Parameters{kMaxReceiveDepth, kMaxReceiveBytes, kMaxTransfers}}) {
    const ParametersBytes bytes = EncodeParameters(parameters);
    for (const size_t padding : {0, 24, 164}) {
      std::vector<std::byte> padded(bytes.begin(), bytes.end());
      padded.resize(bytes.size() + padding, std::byte{0xee});
      Parameters back;
      REQUIRE(DecodeParameters(padded, back).ToString() == "OK");
      CHECK(back == parameters);
    }
    for (size_t size = 0; size < bytes.size(); ++size) {
      Parameters back;
      CHECK(DecodeParameters(std::span(bytes).first(size), back).message() ==
            "the private data of a Farcall connection has at least 32 bytes, not " +
                std::to_string(size));
    }
  }
}

TEST_CASE("hostile parameters name the rule") {
  for (const uint32_t depth : {0u, 1u, 2u, 3u, kMaxReceiveDepth + 1, 1u << 31, ~0u}) {
    CHECK(ParametersRefusal({.receive_depth = depth}) ==
          "the receive depth of a side is 4 to 32768, not " + std::to_string(depth));
  }
  for (const uint32_t bytes : {0u, kMinReceiveBytes - 1, kMaxReceiveBytes + 1, ~0u}) {
    CHECK(ParametersRefusal({.receive_bytes = bytes}) ==
          "the size of the receive buffers of a side is 4160 to 1048576, not " +
              std::to_string(bytes));
  }
  for (const uint32_t transfers : {0u, kMaxTransfers + 1, ~0u}) {
    CHECK(ParametersRefusal({.max_transfers = transfers}) ==
          "the number of transfers of a side is 1 to 65536, not " + std::to_string(transfers));
  }
  Parameters back;
  const ParametersBytes good = EncodeParameters({});
  for (size_t at = 0; at < kParametersBytes; ++at) {
    if (at >= 8 && at < 20) continue;
    ParametersBytes bad = good;
    bad[at] ^= std::byte{0x40};
    const absl::Status status = DecodeParameters(bad, back);
    CHECK_FALSE(status.ok());
    CHECK((status.code() == absl::StatusCode::kFailedPrecondition) == (at == 7));
  }
  ParametersBytes newer = good;
  newer[7] = std::byte{2};
  CHECK(DecodeParameters(newer, back).message() ==
        "it speaks version 2 of the Farcall RDMA wire, this side 1: both need the same release");
}

}  // namespace
}  // namespace farcall::rdma
