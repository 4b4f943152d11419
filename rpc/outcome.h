// Outcome: did a failed call run? Kept as a payload of its absl::Status, so that it survives being
// passed around.

#ifndef FARCALL_RPC_OUTCOME_H_
#define FARCALL_RPC_OUTCOME_H_

#include "absl/status/status.h"

namespace farcall {

enum class Outcome {
  kNotSent,   // the server's handler never saw the call and never will: sending it again is safe
  kUnknown,   // it was sent, and no answer came: it may have run, may run now, or may never run
  kAnswered,  // the server's own answer (also every OK)
};

inline constexpr char kOutcomePayload[] = "farcall/outcome";

// What is known of a call that ended with `status`.
Outcome OutcomeOf(const absl::Status& status);

// `status` with the outcome attached, in a payload and in words at the end of the message. Not for
// OK.
absl::Status WithOutcome(const absl::Status& status, Outcome outcome);

}  // namespace farcall

#endif  // FARCALL_RPC_OUTCOME_H_
