#include "farcall/bench/demo/rounds.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "farcall/bench/measure/cores.h"
#include "farcall/bench/measure/table.h"

namespace farcall::bench {
namespace {

// The host moves cores every few seconds at worst, a measurement takes less than one: a third
// attempt that is disturbed again is rare.
constexpr int kAttempts = 3;

// Distances of one placement differ by a few per cent; the next placement is twice as far.
constexpr double kSamePlacement = 1.4;

bool SamePlacement(std::optional<double> before, std::optional<double> after) {
  if (!before || !after) return before.has_value() == after.has_value();
  return std::max(*before, *after) < kSamePlacement * std::min(*before, *after);
}

std::string Describe(const Workload& workload, const Subject& subject) {
  return std::string(NameOf(workload.kind)) + " " + FormatBytes(workload.bytes) + ", " +
         subject.transport() + " " + NameOf(subject.mode());
}

absl::Status Measure(const Workload& workload, Subject& subject, int round, const Cores& cores,
                     const DistanceProbe& probe, Outcome& outcome) {
  std::optional<double> before = probe();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const absl::StatusOr<Measurement> measurement = subject.Run(workload, cores.server);
    if (!measurement.ok()) return measurement.status();
    if (measurement->errors > 0) {
      outcome.wrong_replies.push_back(Describe(workload, subject) + ": " +
                                      std::to_string(measurement->errors) +
                                      " calls failed, the first: " + measurement->first_error);
    }
    if (measurement->latency.count() == 0) {
      return absl::InternalError(measurement->errors > 0 ? measurement->first_error
                                                         : "no call ended within the time given");
    }
    const std::optional<double> after = probe();
    if (SamePlacement(before, after)) {
      Record record = NameRecord(subject, workload, round);
      if (before && after) record.core_distance_ns = (*before + *after) / 2;
      SetFigures(workload, *measurement, record);
      outcome.records.push_back(std::move(record));
      return absl::OkStatus();
    }
    before = after;
  }
  ++outcome.dropped;
  return absl::OkStatus();
}

}  // namespace

Record NameRecord(const Subject& subject, const Workload& workload, int round) {
  Record record;
  record.transport = subject.transport();
  record.device = subject.device();
  record.mode = NameOf(subject.mode());
  record.path = subject.path(workload);
  record.threshold = subject.threshold();
  record.round = static_cast<uint64_t>(round);
  return record;
}

Cores ChooseCores() {
  const std::vector<int> allowed = AllowedCores();
  if (allowed.size() < 2) return {};
  return {.client = allowed[0], .server = allowed[1]};
}

DistanceProbe ProbeOf(const Cores& cores) {
  return [cores]() -> std::optional<double> {
    if (!cores.client || !cores.server) return std::nullopt;
    const absl::StatusOr<double> distance = CoreDistanceNs(*cores.client, *cores.server);
    return distance.ok() ? std::optional<double>(*distance) : std::nullopt;
  };
}

void Outcome::Append(Outcome&& more) {
  if (status.ok()) status = std::move(more.status);
  std::move(more.records.begin(), more.records.end(), std::back_inserter(records));
  std::move(more.wrong_replies.begin(), more.wrong_replies.end(),
            std::back_inserter(wrong_replies));
  dropped += more.dropped;
}

Outcome RunRounds(const Plan& plan, const std::vector<std::unique_ptr<Subject>>& subjects,
                  const Cores& cores, const DistanceProbe& probe, const Progress& progress) {
  Outcome outcome;
  int a_round = 0;
  for (const Workload& workload : plan.workloads) {
    a_round +=
        static_cast<int>(std::count_if(subjects.begin(), subjects.end(), [&](const auto& subject) {
          return subject->Knows(workload);
        }));
  }
  const int total = plan.rounds * a_round;
  int number = 0;
  for (int i = 0; i < plan.rounds; ++i) {
    const int round = plan.first_round + i;
    for (const Workload& workload : plan.workloads) {
      for (const std::unique_ptr<Subject>& subject : subjects) {
        if (!subject->Knows(workload)) continue;
        const std::string what = Describe(workload, *subject);
        progress(++number, total, what);
        const absl::Status status = Measure(workload, *subject, round, cores, probe, outcome);
        if (!status.ok()) {
          outcome.status = absl::Status(status.code(), what + ": " + std::string(status.message()));
          return outcome;
        }
      }
    }
  }
  return outcome;
}

}  // namespace farcall::bench
