#include "farcall/transports/auto/offer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farcall::paths {
namespace {

constexpr char kVersion = 1, kAddress = 1, kReason = 2;
constexpr size_t kPrefixBytes = 2;

absl::Status Senseless(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("an offer that makes no sense: ", why));
}

}  // namespace

std::string EncodeOffer(const Offer& offer) {
  std::string bytes{kVersion, offer.reason.empty() ? kAddress : kReason};
  if (!offer.reason.empty()) return bytes += offer.reason.substr(0, kMaxTextBytes);
  return bytes.append(offer.token).append(offer.endpoint.ToString());
}

absl::StatusOr<Offer> DecodeOffer(std::string_view bytes) {
  if (bytes.size() < kPrefixBytes) return Senseless("it is cut short");
  if (bytes[0] != kVersion) {
    return Senseless(absl::StrCat("version ", static_cast<unsigned char>(bytes[0]),
                                  "; this side knows ", static_cast<int>(kVersion)));
  }
  const char kind = bytes[1];
  if (kind != kAddress && kind != kReason) return Senseless("neither an address nor a reason");
  bytes.remove_prefix(kPrefixBytes);
  Offer offer;
  if (kind == kAddress) {
    if (bytes.size() < kTokenBytes) return Senseless("its token is cut short");
    offer.token = bytes.substr(0, kTokenBytes);
    bytes.remove_prefix(kTokenBytes);
  }
  if (bytes.empty() || bytes.size() > kMaxTextBytes) {
    return Senseless(
        absl::StrCat("a text of ", bytes.size(), " bytes; it has 1 to ", kMaxTextBytes));
  }
  if (kind == kReason) {
    offer.reason = bytes;
    return offer;
  }
  absl::StatusOr<Endpoint> endpoint = ParseEndpoint(bytes);
  if (!endpoint.ok()) return Senseless(endpoint.status().message());
  offer.endpoint = *std::move(endpoint);
  return offer;
}

}  // namespace farcall::paths
