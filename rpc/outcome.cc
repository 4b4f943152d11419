#include "farcall/rpc/outcome.h"

#include <optional>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace farcall {
namespace {

constexpr std::string_view kNotSent = "not sent";
constexpr std::string_view kUnknown = "outcome unknown";

}  // namespace

Outcome OutcomeOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kOutcomePayload);
  if (!payload) return Outcome::kAnswered;
  return *payload == kNotSent.data() ? Outcome::kNotSent : Outcome::kUnknown;
}

absl::Status WithOutcome(const absl::Status& status, Outcome outcome) {
  if (outcome == Outcome::kAnswered) return status;
  const char* words = (outcome == Outcome::kNotSent ? kNotSent : kUnknown).data();
  absl::Status told(status.code(), absl::StrCat(status.message(), " (", words, ")"));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { told.SetPayload(url, payload); });
  told.SetPayload(kOutcomePayload, absl::Cord(words));
  return told;
}

}  // namespace farcall
