// Where the time of one call goes: measured by the program farcall_stages (bench/stages), over each
// transport.
#ifndef FARCALL_BENCH_DEMO_STAGES_H_
#define FARCALL_BENCH_DEMO_STAGES_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "farcall/bench/demo/rounds.h"
#include "farcall/bench/measure/record.h"

namespace farcall::bench {

// Records of case "stages": TCP and shared memory, sleeping and spinning, with 32 B, 64 KiB and
// 1 MiB there and back; a third of a second each. Not OK: the first that could not be made.
Outcome MeasureStages(const Cores& cores, const Progress& progress);

// What a line of the program says, behind its first word: sets figures of `record`.
// INVALID_ARGUMENT: no such line.
absl::Status ReadStages(std::string_view line, Record& record);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_STAGES_H_
