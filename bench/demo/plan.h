// What the demo runs: which workloads, how often and how long.
#ifndef FARCALL_BENCH_DEMO_PLAN_H_
#define FARCALL_BENCH_DEMO_PLAN_H_

#include <vector>

#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

struct Plan {
  std::vector<Workload> workloads;
  int rounds = 1;
};

Plan FullPlan();   // about eight minutes with all subjects and peers
Plan QuickPlan();  // about 80 s: fewer sizes and rounds, shorter ones
// Round trips of sizes about where a payload's way over shared memory changes by default: for
// subjects that are forced to one way or the other.
Plan CrossoverPlan(bool quick);
// Small calls under load: many in flight, on many connections, beside large payloads and idle
// connections. For subjects that know connections; about three minutes with two, or half a minute.
Plan LoadPlan(bool quick);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_PLAN_H_
