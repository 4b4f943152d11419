// Where the time of a call goes, worked out from records of case "stages". Pure.
#ifndef FARCALL_BENCH_REPORT_STAGES_H_
#define FARCALL_BENCH_REPORT_STAGES_H_

#include <cstdint>
#include <vector>

#include "farcall/bench/report/model.h"

namespace farcall::bench {

// Of the calls with so many bytes; without bars when none were measured.
PartsChart StagesOf(const std::vector<Record>& records, uint64_t bytes);
CostTable StageTableOf(const std::vector<Record>& records, uint64_t bytes);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_REPORT_STAGES_H_
