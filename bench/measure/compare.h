// Rounds of one case side by side: medians, and ratios within rounds.
#ifndef FARCALL_BENCH_MEASURE_COMPARE_H_
#define FARCALL_BENCH_MEASURE_COMPARE_H_

#include <functional>
#include <optional>
#include <vector>

#include "farcall/bench/measure/cores.h"
#include "farcall/bench/measure/record.h"

namespace farcall::bench {

// A figure of a record, e.g. &Record::p50_us.
using Figure = std::function<double(const Record&)>;

// The middle value, or the mean of the two middle ones. Requires at least one.
double Median(std::vector<double> values);

// The records of one row of a table: the same transport, device, mode, path, case and sizes.
using Rounds = std::vector<Record>;

// The records that lie in the distance group with the most of them (ties: the nearest group), as a
// median over different groups would describe no machine that ever was. `rounds` must not be empty.
Rounds LargestGroup(const Rounds& rounds);

// Ours divided by the other, round by round.
struct Ratio {
  double median = 0;
  double lowest = 0;
  double highest = 0;
  int rounds = 0;                               // that the ratio rests on
  CoreDistance group = CoreDistance::kUnknown;  // in which both sides of all these rounds ran
};

// Pairs up the records of equal round and equal distance group, and takes the median over the group
// with the most pairs (ties: the nearest). nullopt when no round has both sides in one group. Pairs
// whose other side is 0 do not count.
std::optional<Ratio> RatioOf(const Figure& figure, const Rounds& ours, const Rounds& other);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_COMPARE_H_
