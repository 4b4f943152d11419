// What a call costs besides time, counted in a pass of its own after the rounds: what counts slows
// down.
#ifndef FARCALL_BENCH_DEMO_COSTS_H_
#define FARCALL_BENCH_DEMO_COSTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "farcall/bench/demo/rounds.h"
#include "farcall/bench/demo/subject.h"
#include "farcall/bench/measure/record.h"

namespace farcall::bench {

// Of one blocking call at a time, with 32 B, 64 KiB and 1 MiB there and back: runs each of
// `subjects` once more for each size that `records` has of it, and sets the costs of these records.
// About a fifth of a second each. The first measurement that cannot be made ends it with its
// status. What the processes cost is left out where not `of_processes`: in an emulated machine
// there are too few calls meanwhile.
absl::Status CountCosts(const std::vector<std::unique_ptr<Subject>>& subjects, const Cores& cores,
                        const Progress& progress, std::vector<Record>& records,
                        bool of_processes = true);

// How it is counted, in a line; or why the kernel lets nobody count here.
std::string HowCostsAreCounted();

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_COSTS_H_
