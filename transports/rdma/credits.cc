#include "farcall/transports/rdma/credits.h"

#include "absl/strings/str_cat.h"

namespace farcall::rdma {

Credits::Credits(uint32_t own_depth, uint32_t peer_depth, Variation variation)
    : own_depth_(own_depth),
      peer_depth_(peer_depth),
      keep_last_(variation.keep_last),
      sent_(variation.count_from),
      peer_reposts_(variation.count_from),
      reposted_(variation.count_from),
      told_(variation.count_from) {}

bool Credits::CanSend(Kind kind) const {
  return available() >= (keep_last_ && kind != Kind::kCredit ? 2 : 1);
}

uint32_t Credits::Send() {
  ++sent_;
  told_ = reposted_;
  untold_news_ = false;
  return told_;
}

bool Credits::CreditDue() const { return untold_news_ && uint64_t{untold()} * 2 >= own_depth_; }

absl::Status Credits::Received(Kind kind, uint32_t reposts) {
  // All that was told may be known to the peer, and no more.
  if (untold() >= own_depth_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a SEND needs a credit, and the peer had used all ", own_depth_, " that it had"));
  }
  const uint32_t outstanding = sent_ - peer_reposts_;
  if (reposts - peer_reposts_ > outstanding) {
    return absl::InvalidArgumentError(
        absl::StrCat("reposts count up and never beyond what was sent, ", sent_, ": not from ",
                     peer_reposts_, " to ", reposts));
  }
  peer_reposts_ = reposts;
  ++reposted_;
  if (kind != Kind::kCredit) untold_news_ = true;
  return absl::OkStatus();
}

}  // namespace farcall::rdma
