#include "farcall/transports/rdma/softnic/faults.h"

#include <utility>

namespace farcall::softnic {

Faults::Faults(FaultPlan plan)
    : plan_(std::move(plan.faults)), random_(plan.seed), seen_(plan_.size()) {}

std::optional<Fault> Faults::Next(rdma::Opcode opcode) {
  const MutexLock lock(mutex_);
  std::optional<Fault> hit;
  for (size_t i = 0; i < plan_.size(); ++i) {
    const Fault& fault = plan_[i];
    if (fault.on.has_value() && *fault.on != opcode) continue;
    ++seen_[i];
    // Drawn whether needed or not: what one fault does never moves the others.
    const bool chance = fault.one_in != 0 && random_() % fault.one_in == 0;
    const bool hits = fault.nth != 0 ? seen_[i] == fault.nth : chance;
    if (hits && !hit.has_value()) hit = fault;
  }
  return hit;
}

}  // namespace farcall::softnic
