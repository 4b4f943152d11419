// What the demo runs: which workloads, how often and how long.
#ifndef FARCALL_BENCH_DEMO_PLAN_H_
#define FARCALL_BENCH_DEMO_PLAN_H_

#include <vector>

#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

struct Plan {
  std::vector<Workload> workloads;
  int rounds = 1;
  int first_round = 1;  // its number in the records
};

Plan FullPlan();   // about eight minutes with all subjects and peers
Plan QuickPlan();  // about 80 s: fewer sizes and rounds, shorter ones
// Round trips of sizes about where a payload's way over shared memory changes by default: for
// subjects that are forced to one way or the other.
Plan CrossoverPlan(bool quick);
// In the guest of tests/guest, over one of its devices: perftest's cases beside ours, of which a
// small call has SENDs of `wire_bytes`, a READ asks for `chunk_bytes`, and `read_depth` of them are
// under way at most. Each of perftest's is right before what is compared with it.
struct VerbsSizes {
  size_t wire_bytes = 0;
  size_t chunk_bytes = 0;
  int read_depth = 0;
};
Plan VerbsPlan(bool quick, const VerbsSizes& sizes);
// Small calls under load: many in flight, on many connections, beside large payloads and idle
// connections. For subjects that know connections; about three minutes with two, or half a minute.
Plan LoadPlan(bool quick);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_PLAN_H_
