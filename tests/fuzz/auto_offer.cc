// What a server's OFFER says of a path. Whatever decodes encodes to what decodes equally.

#include "farcall/tests/fuzz/target.h"
#include "farcall/transports/auto/offer.h"

namespace farcall::fuzz {

std::vector<std::string> Seeds() {
  const std::string token("\0\r\n\xff 0123456789a", 16);
  std::vector<std::string> seeds;
  for (const char* address : {"shm://auto-00ff", "rdma://10.0.0.1:7001", "rdma://[fe80::1]:1"}) {
    seeds.push_back(paths::EncodeOffer(
        {.reason = {}, .endpoint = ParseEndpoint(address).value(), .token = token}));
  }
  seeds.push_back(paths::EncodeOffer({.reason = "no device"}));
  seeds.push_back("\x02\x01");
  return seeds;
}

void Run(Input input) {
  const absl::StatusOr<paths::Offer> offer = paths::DecodeOffer(input.rest());
  if (!offer.ok()) return;
  FUZZ_CHECK(offer->reason.size() <= paths::kMaxTextBytes);
  FUZZ_CHECK(offer->token.size() == (offer->reason.empty() ? paths::kTokenBytes : 0));
  const absl::StatusOr<paths::Offer> again = paths::DecodeOffer(paths::EncodeOffer(*offer));
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(again->reason == offer->reason && again->token == offer->token);
  FUZZ_CHECK(again->endpoint.ToString() == offer->endpoint.ToString());
}

}  // namespace farcall::fuzz
