// Runs a plan over subjects, round by round, so that all of them meet the same moods of the
// machine.
#ifndef FARCALL_BENCH_DEMO_ROUNDS_H_
#define FARCALL_BENCH_DEMO_ROUNDS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "farcall/bench/demo/plan.h"
#include "farcall/bench/demo/subject.h"
#include "farcall/bench/measure/record.h"

namespace farcall::bench {

// Where the two sides run; empty where the machine has no two cores for us, and nothing is pinned.
struct Cores {
  std::optional<int> client;
  std::optional<int> server;
};

// The first two cores that we may run on.
Cores ChooseCores();

// A record of `subject` without figures.
Record NameRecord(const Subject& subject, const Workload& workload, int round);

struct Outcome {
  absl::Status status;          // of the first measurement that could not be made; it ended the run
  std::vector<Record> records;  // of those made until then
  std::vector<std::string> wrong_replies;  // one line a measurement with errors
  int dropped = 0;  // measurements given up because the cores moved during each attempt

  // What came after it.
  void Append(Outcome&& more);
};

// Told before each measurement: its number from 1, of how many, and what it is.
using Progress = std::function<void(int number, int total, const std::string& what)>;

// The distance of the two cores now, in nanoseconds; empty when it could not be measured.
using DistanceProbe = std::function<std::optional<double>()>;

// Probes the chosen cores; where there are none, never has a result.
DistanceProbe ProbeOf(const Cores& cores);

// In each round runs each workload on each subject in turn. The calling thread must be pinned to
// `cores.client`. The distance of the cores is probed before and after each measurement; when
// it changed, the measurement is repeated, and after a few attempts dropped.
Outcome RunRounds(const Plan& plan, const std::vector<std::unique_ptr<Subject>>& subjects,
                  const Cores& cores, const DistanceProbe& probe, const Progress& progress);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_ROUNDS_H_
