// Outcome: did a failed call run? Kept as a payload of its absl::Status, so that it survives being
// passed around; absl::Status::ToString shows it.

#ifndef FARCALL_RPC_OUTCOME_H_
#define FARCALL_RPC_OUTCOME_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farcall {

enum class Outcome {
  kNotSent,   // it never left as a whole: no handler saw it, or ever will
  kNotRun,    // the server refused it: no handler saw it
  kUnknown,   // it was sent, and no answer came: it may have run, may run now, or may never run
  kAnswered,  // the handler ran and answered: every OK, its errors, and a reply that is not taken
};

inline constexpr char kOutcomePayload[] = "farcall/outcome";

// What is known of a call that ended with `status`.
Outcome OutcomeOf(const absl::Status& status);

// True for kNotSent and kNotRun: making the call again cannot make it run twice.
bool NeverRan(const absl::Status& status);

// `status` with the outcome attached. Not for OK.
absl::Status WithOutcome(absl::Status status, Outcome outcome);

// `status` with another message; its payloads, the outcome among them, stay.
absl::Status Reworded(const absl::Status& status, absl::string_view message);

}  // namespace farcall

#endif  // FARCALL_RPC_OUTCOME_H_
