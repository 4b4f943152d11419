#include "farcall/bench/demo/costs.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "farcall/bench/measure/heap_count.h"
#include "farcall/bench/measure/process_counters.h"
#include "farcall/bench/measure/table.h"

namespace farcall::bench {
namespace {

constexpr std::array<size_t, 3> kSizes = {32, size_t{64} << 10, size_t{1} << 20};

Workload CountedCalls(size_t bytes) {
  return {.kind = Case::kLatency,
          .bytes = bytes,
          .duration = std::chrono::milliseconds(50),
          .warm_up = std::chrono::milliseconds(20),
          .counted = true};
}

// What a pass counts for.
struct Pass {
  Subject* subject;
  Workload workload;
  std::vector<Record*> records;
};

std::vector<Pass> PassesFor(const std::vector<std::unique_ptr<Subject>>& subjects,
                            std::vector<Record>& records) {
  std::vector<Pass> passes;
  for (const std::unique_ptr<Subject>& subject : subjects) {
    for (const size_t bytes : kSizes) {
      Pass pass{subject.get(), CountedCalls(bytes), {}};
      for (Record& record : records) {
        if (record.transport == subject->transport() && record.mode == NameOf(subject->mode()) &&
            record.kind == NameOf(Case::kLatency) && record.bytes == bytes && record.alone()) {
          pass.records.push_back(&record);
        }
      }
      if (!pass.records.empty()) passes.push_back(std::move(pass));
    }
  }
  return passes;
}

absl::StatusOr<Costs> Count(const Pass& pass, const Cores& cores, bool of_processes) {
  absl::StatusOr<Costs> costs = pass.subject->CountOperations(pass.workload, cores.server);
  if (!costs.ok() || !of_processes) return costs;
  const absl::StatusOr<Measurement> measured = pass.subject->Run(pass.workload, cores.server);
  if (!measured.ok()) return measured.status();
  const uint64_t calls = measured->latency.count() + measured->errors;
  const auto per_call = [calls](const std::optional<uint64_t>& count) -> std::optional<double> {
    if (!count || calls == 0) return std::nullopt;
    return static_cast<double>(*count) / static_cast<double>(calls);
  };
  costs->syscalls = per_call(measured->counts.syscalls);
  costs->context_switches = per_call(measured->counts.context_switches);
  costs->allocations = per_call(measured->counts.allocations);
  return costs;
}

}  // namespace

absl::Status CountCosts(const std::vector<std::unique_ptr<Subject>>& subjects, const Cores& cores,
                        const Progress& progress, std::vector<Record>& records, bool of_processes) {
  const std::vector<Pass> passes = PassesFor(subjects, records);
  std::optional<CountHeaps> counting;
  if (of_processes) counting.emplace();
  int number = 0;
  for (const Pass& pass : passes) {
    const std::string what = "costs of " + FormatBytes(pass.workload.bytes) + ", " +
                             pass.subject->transport() + " " + NameOf(pass.subject->mode());
    progress(++number, static_cast<int>(passes.size()), what);
    const absl::StatusOr<Costs> costs = Count(pass, cores, of_processes);
    if (!costs.ok()) {
      return absl::Status(costs.status().code(),
                          what + ": " + std::string(costs.status().message()));
    }
    for (Record* record : pass.records) record->costs = *costs;
  }
  return absl::OkStatus();
}

std::string HowCostsAreCounted() {
  const absl::Status counters = ProcessCounters::Open(std::array{::getpid()}).status();
  return counters.ok()
             ? "system calls and context switches by the kernel (perf events), heap "
               "allocations by a counting malloc, the others by the connections"
             : "by the connections; system calls, context switches and allocations are not: " +
                   std::string(counters.message());
}

}  // namespace farcall::bench
