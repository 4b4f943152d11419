// Dice: the same throws from the same seed, on every machine and with every standard library.

#ifndef FARCALL_TRANSPORTS_FAULTY_DICE_H_
#define FARCALL_TRANSPORTS_FAULTY_DICE_H_

#include <cstdint>

#include "farcall/transports/faulty/faulty.h"

namespace farcall::faulty {

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}

  // SplitMix64.
  uint64_t Throw() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // 0 … sides - 1.
  uint64_t Throw(uint64_t sides) { return Throw() % sides; }

  bool Happens(double probability) {
    return static_cast<double>(Throw() >> 11) * 0x1.0p-53 < probability;
  }

  Duration Between(Duration least, Duration most) {
    if (most <= least) return least;
    return least + Duration(Throw(static_cast<uint64_t>((most - least).count()) + 1));
  }

  // Zero when it does not happen.
  Duration Wait(const FaultPlan::Chance& chance) {
    if (!Happens(chance.probability)) return Duration::zero();
    return Between(chance.least, chance.most);
  }

 private:
  uint64_t state_;
};

}  // namespace farcall::faulty

#endif  // FARCALL_TRANSPORTS_FAULTY_DICE_H_
