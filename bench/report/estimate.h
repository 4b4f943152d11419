// What a call would take over an RDMA adapter, which this machine may not have: operations that
// were counted, times published costs. An estimate, and called so wherever it is shown. Pure.
#ifndef FARCALL_BENCH_REPORT_ESTIMATE_H_
#define FARCALL_BENCH_REPORT_ESTIMATE_H_

#include <optional>
#include <vector>

#include "farcall/bench/report/model.h"

namespace farcall::bench {

// What a network of RoCE adapters takes.
struct RoceCosts {
  double round_trip_us;  // of a small message there and back
  double bytes_per_us;
  const char* sources;
};
extern const RoceCosts kRoceCosts;

// A call of a size, one at a time.
struct RoceEstimate {
  uint64_t bytes = 0;
  Costs counted;           // by the software NIC, which posts what an adapter would be posted
  int round_trips = 0;     // one after the other
  double network_us = 0;   // these
  double transfer_us = 0;  // the bytes, both ways
  double own_us = 0;       // what the library does itself: measured, without wire and payload
  double call_us() const { return network_us + transfer_us + own_us; }
};

// For each size of which the operations were counted and the stages measured over shared memory,
// spinning.
std::vector<RoceEstimate> EstimateRoce(const std::vector<Record>& records);

// Empty when there is none.
std::optional<CostTable> RoceTable(const std::vector<RoceEstimate>& estimates);

// As records of transport "estimate/roce" and case "estimate", whose p50_us is no measurement.
std::vector<Record> RoceRecords(const std::vector<RoceEstimate>& estimates);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_REPORT_ESTIMATE_H_
