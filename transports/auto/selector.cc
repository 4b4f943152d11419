#include "farcall/transports/auto/selector.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/log.h"
#include "farcall/transports/auto/offer.h"

namespace farcall::paths {
namespace {

// Reads what is offered for `member` into `candidate`; not OK: why it cannot be tried.
absl::Status Read(const Member& member, const std::vector<PathOffer>& offers,
                  PathCandidate& candidate) {
  if (member.transport == nullptr) {
    return absl::UnavailableError("left out by this side's options (AutoOptions)");
  }
  const auto offered = std::find_if(offers.begin(), offers.end(), [&](const PathOffer& offer) {
    return offer.name == member.name;
  });
  if (offered == offers.end()) return absl::UnavailableError("the peer offers none");
  absl::StatusOr<Offer> offer = DecodeOffer(offered->value);
  if (!offer.ok()) return offer.status();
  if (!offer->reason.empty()) {
    return absl::UnavailableError(absl::StrCat("the peer offers none: ", Printable(offer->reason)));
  }
  if (offer->endpoint.scheme != member.name) {
    return absl::InvalidArgumentError(absl::StrCat("the peer offers an address of another kind: ",
                                                   Printable(offer->endpoint.ToString())));
  }
  candidate.endpoint = std::move(offer->endpoint);
  candidate.token = std::move(offer->token);
  candidate.transport = member.transport;
  return absl::OkStatus();
}

}  // namespace

std::vector<PathCandidate> Selector::Select(const std::vector<PathOffer>& offers) {
  std::vector<PathCandidate> candidates;
  candidates.reserve(members_.size());
  for (const Member& member : members_) {
    PathCandidate candidate;
    candidate.name = member.name;
    candidate.unusable = Read(member, offers, candidate);
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace farcall::paths
