#include "farcall/rpc/outcome.h"

#include <utility>

#include "absl/strings/cord.h"

namespace farcall {
namespace {

constexpr char kNotSent[] = "not sent";
constexpr char kNotRun[] = "not run";
constexpr char kUnknown[] = "unknown";

}  // namespace

Outcome OutcomeOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kOutcomePayload);
  if (!payload) return Outcome::kAnswered;
  if (*payload == kNotSent) return Outcome::kNotSent;
  if (*payload == kNotRun) return Outcome::kNotRun;
  return Outcome::kUnknown;
}

bool NeverRan(const absl::Status& status) {
  const Outcome outcome = OutcomeOf(status);
  return outcome == Outcome::kNotSent || outcome == Outcome::kNotRun;
}

absl::Status WithOutcome(absl::Status status, Outcome outcome) {
  switch (outcome) {
    case Outcome::kNotSent:
      status.SetPayload(kOutcomePayload, absl::Cord(kNotSent));
      break;
    case Outcome::kNotRun:
      status.SetPayload(kOutcomePayload, absl::Cord(kNotRun));
      break;
    case Outcome::kUnknown:
      status.SetPayload(kOutcomePayload, absl::Cord(kUnknown));
      break;
    case Outcome::kAnswered:
      status.ErasePayload(kOutcomePayload);
      break;
  }
  return status;
}

absl::Status Reworded(const absl::Status& status, absl::string_view message) {
  absl::Status reworded(status.code(), message);
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { reworded.SetPayload(url, payload); });
  return reworded;
}

}  // namespace farcall
