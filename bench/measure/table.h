// The records of a run as a table for a terminal.
#ifndef FARCALL_BENCH_MEASURE_TABLE_H_
#define FARCALL_BENCH_MEASURE_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "farcall/bench/measure/record.h"

namespace farcall::bench {

// One block a case and size, one row a transport and mode with its medians over the rounds. Rows of
// other transports than `floor` end with their ratio to the row of `floor` in the same mode: round
// trip (p50) for latency, calls/s for throughput, MB/s for bulk. Rows keep the order in which
// records first name them. A footnote explains the ratio.
std::string FormatTable(const std::vector<Record>& records, const std::string& floor);

// 32 -> "32 B", 4096 -> "4 KiB", 1048576 -> "1 MiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_TABLE_H_
