#include "farcall/bench/demo/plan.h"

#include <chrono>
#include <cstddef>

namespace farcall::bench {
namespace {

constexpr size_t kKib = 1024;
constexpr size_t kMib = 1024 * kKib;
constexpr int kBulkOutstanding = 8;

Plan MakePlan(const std::vector<size_t>& latency_sizes, const std::vector<size_t>& bulk_sizes,
              const std::vector<int>& in_flight, int rounds, std::chrono::nanoseconds duration,
              std::chrono::nanoseconds warm_up) {
  Plan plan{.workloads = {}, .rounds = rounds};
  const auto add = [&](Case kind, size_t bytes, int outstanding) {
    plan.workloads.push_back({.kind = kind,
                              .bytes = bytes,
                              .outstanding = outstanding,
                              .duration = duration,
                              .warm_up = warm_up});
  };
  for (const size_t bytes : latency_sizes) add(Case::kLatency, bytes, 1);
  for (const int outstanding : in_flight) add(Case::kThroughput, 32, outstanding);
  for (const size_t bytes : bulk_sizes) {
    add(Case::kBulkRequest, bytes, kBulkOutstanding);
    add(Case::kBulkReply, bytes, kBulkOutstanding);
  }
  return plan;
}

}  // namespace

Plan FullPlan() {
  return MakePlan({32, kKib, 4 * kKib, 16 * kKib, 64 * kKib, kMib, 16 * kMib},
                  {64 * kKib, kMib, 16 * kMib}, {4, 16, 64, 256}, 5, std::chrono::milliseconds(270),
                  std::chrono::milliseconds(100));
}

Plan CrossoverPlan(bool quick) {
  const std::vector<size_t> sizes =
      quick ? std::vector<size_t>{2 * kKib, 4 * kKib, 8 * kKib, 16 * kKib, 32 * kKib}
            : std::vector<size_t>{kKib,      2 * kKib,  4 * kKib, 8 * kKib,
                                  16 * kKib, 32 * kKib, 64 * kKib};
  return MakePlan(sizes, {}, {}, quick ? 2 : 3, std::chrono::milliseconds(quick ? 80 : 150),
                  std::chrono::milliseconds(40));
}

Plan VerbsPlan(bool quick, const VerbsSizes& sizes) {
  Plan plan{.workloads = {}, .rounds = quick ? 3 : 7};
  const auto add = [&](Case kind, size_t bytes, int outstanding = 1) {
    plan.workloads.push_back({.kind = kind,
                              .bytes = bytes,
                              .outstanding = outstanding,
                              .duration = std::chrono::milliseconds(quick ? 300 : 500),
                              .warm_up = std::chrono::milliseconds(150)});
  };
  constexpr int kInFlight = 4;
  add(Case::kSendLat, sizes.wire_bytes);
  add(Case::kLatency, 32);
  add(Case::kReadLat, 64 * kKib);
  add(Case::kBulkRequest, 64 * kKib);
  add(Case::kReadBw, sizes.chunk_bytes, sizes.read_depth);
  add(Case::kBulkRequest, kMib, kInFlight);
  add(Case::kBulkReply, kMib, kInFlight);
  add(Case::kLatency, 4 * kKib);
  add(Case::kLatency, 64 * kKib);
  add(Case::kThroughput, 32, 64);
  if (quick) return plan;
  add(Case::kLatency, kKib);
  add(Case::kLatency, 16 * kKib);
  add(Case::kLatency, kMib);
  add(Case::kThroughput, 32, 16);
  return plan;
}

Plan LoadPlan(bool quick) {
  Plan plan{.workloads = {}, .rounds = quick ? 3 : 5};
  const auto add = [&](Workload workload) {
    workload.duration = std::chrono::milliseconds(quick ? 200 : 1000);
    workload.warm_up = std::chrono::milliseconds(100);
    plan.workloads.push_back(workload);
  };
  add({.kind = Case::kLatency});
  add({.kind = Case::kLatency, .idle_connections = 1000});
  if (!quick) add({.kind = Case::kLatency, .idle_connections = 10'000});
  add({.kind = Case::kLatency, .beside_bytes = 1024 * kMib});
  for (const int outstanding : {4, 16, 64, 256}) {
    add({.kind = Case::kThroughput, .outstanding = outstanding});
  }
  for (const int connections : {4, 64}) {
    add({.kind = Case::kThroughput, .outstanding = 64, .connections = connections});
  }
  add({.kind = Case::kThroughput, .outstanding = 64, .connections = 64, .load_percent = 50});
  return plan;
}

// The warm-up covers what a fresh connection and process still learn: window sizes, page faults.
Plan QuickPlan() {
  return MakePlan({32, 4 * kKib, 64 * kKib, kMib}, {kMib}, {64}, 3, std::chrono::milliseconds(150),
                  std::chrono::milliseconds(80));
}

}  // namespace farcall::bench
