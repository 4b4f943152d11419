// The records of a run as a table for a terminal.
#ifndef FARCALL_BENCH_MEASURE_TABLE_H_
#define FARCALL_BENCH_MEASURE_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "farcall/bench/measure/record.h"

namespace farcall::bench {

// One block a case and size, one row a transport and mode with its medians over the rounds. A row
// of a transport "tcp" ends with its ratio to the row of "floor/tcp" in the same mode, where there
// is one: round trip (p50) for latency, calls/s for throughput, MB/s for bulk. Where something went
// on beside the calls, it is the ratio to the same row alone: p99 beside payloads, p50 beside idle
// connections. Rows keep the order in which records first name them. A footnote explains the
// columns.
std::string FormatTable(const std::vector<Record>& records);

// What the calls of the first latency cost, in a line; empty when there is none.
std::string FormatHeadline(const std::vector<Record>& records);

// "tcp busy"; where there are several of a kind, with the device: "rdma/rxe0 busy".
std::string NameOfRow(const std::string& transport, const std::string& device,
                      const std::string& mode);

// 32 -> "32 B", 4096 -> "4 KiB", 1048576 -> "1 MiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_TABLE_H_
