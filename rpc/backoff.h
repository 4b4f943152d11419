// Pauses between attempts at what failed.

#ifndef FARCALL_RPC_BACKOFF_H_
#define FARCALL_RPC_BACKOFF_H_

#include <random>

#include "farcall/rpc/clock.h"

namespace farcall {

// Each pause is `factor` times the last, up to `max`, plus or minus `jitter` of itself so that the
// clients of a restarted server do not come all at once.
struct BackoffOptions {
  Duration first = std::chrono::milliseconds(20);
  Duration max = std::chrono::seconds(2);
  double factor = 1.6;
  double jitter = 0.2;
};

// The pause after the attempt that failed as the `failures`-th in a row, from 1.
Duration PauseAfter(int failures, const BackoffOptions& backoff, std::minstd_rand& random);

}  // namespace farcall

#endif  // FARCALL_RPC_BACKOFF_H_
