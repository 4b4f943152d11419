#include "farcall/rpc/backoff.h"

#include <algorithm>

namespace farcall {
namespace {

// Twice as long, by the jitter, still has to fit a Duration.
constexpr Duration kLongestPause = std::chrono::hours(24 * 365);

}  // namespace

Duration PauseAfter(int failures, const BackoffOptions& backoff, std::minstd_rand& random) {
  double pause = std::chrono::duration<double>(backoff.first).count();
  const double longest =
      std::chrono::duration<double>(std::min(backoff.max, kLongestPause)).count();
  for (int i = 1; i < failures && pause < longest; ++i) pause *= backoff.factor;
  const double jitter = std::clamp(backoff.jitter, 0.0, 1.0);
  std::uniform_real_distribution<double> spread(1 - jitter, 1 + jitter);
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(pause, longest) * spread(random)));
}

}  // namespace farcall
