// The ratios that this project holds itself to, judged by the records of a run. Pure.
#ifndef FARCALL_BENCH_REPORT_TARGETS_H_
#define FARCALL_BENCH_REPORT_TARGETS_H_

#include <optional>
#include <string>
#include <vector>

#include "farcall/bench/measure/compare.h"
#include "farcall/bench/measure/record.h"

namespace farcall::bench {

struct Verdict {
  std::string what;            // "shm busy / floor/shm, bulk_reply 1 MiB"
  std::string must;            // "at least 0.8"
  std::optional<Ratio> found;  // of an absolute figure its median over the rounds; empty: the run
                               // did not measure it
  bool pass = false;           // of the median
};

// One for each target, in a fixed order. Of records with floor/verbs those of an adapter beside
// perftest, for each device, and no others.
std::vector<Verdict> Judge(const std::vector<Record>& records);

// What was found of one that was measured: "1.17 (1.15 to 1.18), at most 1.30: pass".
std::string ToText(const Verdict& verdict);

// For a terminal: a line for each that was measured, and the number of the others.
std::string FormatVerdicts(const std::vector<Verdict>& verdicts);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_REPORT_TARGETS_H_
