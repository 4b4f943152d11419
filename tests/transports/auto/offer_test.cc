#include "farcall/transports/auto/offer.h"

#include <catch2/catch.hpp>
#include <string>

namespace farcall::paths {
namespace {

using Catch::Matchers::Contains;

const std::string kToken = "0123456789abcdef";

Offer Shm() { return {.endpoint = ParseEndpoint("shm://auto-00ff").value(), .token = kToken}; }

std::string Error(const std::string& bytes) {
  const absl::Status status = DecodeOffer(bytes).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST_CASE("an address and its token, byte for byte") {
  const std::string bytes = EncodeOffer(Shm());
  CHECK(bytes == std::string("\x01\x01") + kToken + "shm://auto-00ff");
  const Offer read = DecodeOffer(bytes).value();
  CHECK(read.reason.empty());
  CHECK(read.token == kToken);
  CHECK(read.endpoint.ToString() == "shm://auto-00ff");
}

TEST_CASE("a reason why there is none, cut when it is too long") {
  CHECK(EncodeOffer({.reason = "no device"}) == "\x01\x02no device");
  const std::string longest(kMaxTextBytes, 'x');
  CHECK(DecodeOffer(EncodeOffer({.reason = longest + "y"})).value().reason == longest);
}

TEST_CASE("an offer that makes no sense is refused, with what is wrong") {
  CHECK_THAT(Error(""), Contains("cut short"));
  CHECK_THAT(Error("\x01"), Contains("cut short"));
  CHECK_THAT(Error(std::string("\x02\x01") + kToken + "shm://x"), Contains("version 2"));
  CHECK_THAT(Error(std::string("\x01\x03") + kToken + "shm://x"), Contains("neither"));
  CHECK_THAT(Error("\x01\x02"), Contains("a text of 0 bytes"));
  CHECK_THAT(Error("\x01\x02" + std::string(kMaxTextBytes + 1, 'x')), Contains("513 bytes"));
  CHECK_THAT(Error("\x01\x01shm://x"), Contains("token is cut short"));
  CHECK_THAT(Error("\x01\x01" + kToken), Contains("a text of 0 bytes"));
  CHECK_THAT(Error("\x01\x01" + kToken + "nowhere"), Contains("nowhere"));
}

TEST_CASE("a prefix of an offer is refused, or is another offer of the same path") {
  const std::string bytes = EncodeOffer(Shm());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto read = DecodeOffer(bytes.substr(0, size));
    if (read.ok()) CHECK(read->token == kToken);
  }
}

}  // namespace
}  // namespace farcall::paths
