// What a run of the demo measures, and on which cores.
#ifndef FARCALL_BENCH_DEMO_LINEUP_H_
#define FARCALL_BENCH_DEMO_LINEUP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/bench/demo/arguments.h"
#include "farcall/bench/demo/plan.h"
#include "farcall/bench/demo/rounds.h"
#include "farcall/bench/demo/subject.h"
#include "farcall/bench/measure/record.h"

namespace farcall::bench {

struct Lineup {
  Plan plan;
  std::vector<std::unique_ptr<Subject>> subjects;
  DistanceProbe probe;
  Facts about;                        // of what is not ours
  Facts settings;                     // beside those of every run
  std::vector<std::string> left_out;  // a line each, with the reason
};

// As the command line asks for. Makes a call over each transport that there may not be, which says
// whether there is. The calling thread is pinned already.
absl::StatusOr<Lineup> MakeLineup(const Arguments& arguments, const Cores& cores);

// For CrossoverPlan: shared memory with all payloads forced to be eager, and with none of them.
std::vector<std::unique_ptr<Subject>> MakeForcedSubjects();

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_LINEUP_H_
