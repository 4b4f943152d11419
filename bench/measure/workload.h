// What one measurement does, and what it found: the words that every measured client shares.
#ifndef FARCALL_BENCH_MEASURE_WORKLOAD_H_
#define FARCALL_BENCH_MEASURE_WORKLOAD_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "farcall/rpc/histogram.h"

namespace farcall::bench {

enum class Mode { kEvent, kBusy };  // sleeps in the kernel until something arrives, or spins

enum class Case {
  kLatency,      // the same bytes there and back, one outstanding
  kThroughput,   // the same small bytes there and back, many outstanding
  kBulkRequest,  // a large body there, a small answer back
  kBulkReply,    // a small request there, a large body back
  // What perftest measures, without calls:
  kSendLat,  // a SEND there and one back; its figure is half of that
  kReadLat,  // a READ, one outstanding
  kReadBw,   // READs, many outstanding
};

// Whether no call is made in it: perftest's.
constexpr bool IsOfVerbs(Case workload_case) { return workload_case >= Case::kSendLat; }

// As records and tables write them: "event", "busy"; "latency", "throughput", …
const char* NameOf(Mode mode);
const char* NameOf(Case workload_case);

struct Workload {
  Case kind = Case::kLatency;
  size_t bytes = 32;         // of the payload in the measured direction
  int outstanding = 1;       // calls in flight, over all connections
  int connections = 1;       // that the calls are spread over
  int idle_connections = 0;  // that are open meanwhile and silent
  size_t beside_bytes = 0;   // payloads of this size move on the first connection meanwhile
  // Calls start by the clock, at random, at this part of the rate that the others reach; 0: each
  // when another one ends.
  int load_percent = 0;
  std::chrono::nanoseconds duration = std::chrono::seconds(1);  // measured, after the warm-up
  std::chrono::nanoseconds warm_up =
      std::chrono::milliseconds(100);  // runs the same, recorded nowhere
  // Counts are taken, which slows the calls down: their times are worth nothing.
  bool counted = false;

  // One connection, and nothing beside it.
  bool alone() const { return connections == 1 && idle_connections == 0 && beside_bytes == 0; }
};

using Latencies = Histogram<8>;  // ns; a quantile is at most 0.2 % off

// What was counted of both processes (measure/process_counters.h). Empty: not counted.
struct Counts {
  std::optional<uint64_t> syscalls;
  std::optional<uint64_t> context_switches;  // wanted or not
  std::optional<uint64_t> allocations;       // from the heap
};

struct Measurement {
  Latencies latency;        // round trips of the calls that succeeded
  uint64_t elapsed_ns = 0;  // of the measured part
  // User and system time of both processes in the measured part. Empty: not known.
  std::optional<uint64_t> cpu_ns;
  double beside_mb_per_s = 0;  // 10^6 bytes of the payloads beside, on average
  Counts counts;               // in the measured part
  uint64_t errors = 0;         // calls that failed or whose reply was wrong
  std::string first_error;     // what was wrong with the first of them
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_WORKLOAD_H_
