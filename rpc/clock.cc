#include "farcall/rpc/clock.h"

namespace farcall {
namespace {

class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace

Clock& Clock::Steady() {
  static SteadyClock* const clock = new SteadyClock;  // threads may outlive static destructors
  return *clock;
}

}  // namespace farcall
