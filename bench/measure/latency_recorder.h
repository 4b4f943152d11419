// Latencies of many calls in fixed memory: a histogram with logarithmic buckets, each split evenly.
//
// Not thread-safe: one recorder a measuring thread. Recording is a few instructions and touches one
// cache line, so that millions of calls a second can be recorded one by one.
#ifndef FARCALL_BENCH_MEASURE_LATENCY_RECORDER_H_
#define FARCALL_BENCH_MEASURE_LATENCY_RECORDER_H_

#include <cstdint>
#include <vector>

namespace farcall::bench {

class LatencyRecorder {
 public:
  // Values below 2 * kSubBuckets ns are exact; above, a percentile is at most 1 / kSubBuckets off.
  static constexpr int kSubBucketBits = 8;
  static constexpr uint64_t kSubBuckets = uint64_t{1} << kSubBucketBits;

  LatencyRecorder();

  // Adds one latency. Values from 2^40 ns (18 minutes) on all land in the last bucket.
  void Record(uint64_t latency_ns) {
    ++buckets_[BucketOf(latency_ns)];
    ++count_;
    sum_ns_ += latency_ns;
  }

  uint64_t count() const { return count_; }

  // Exact mean; 0 without samples.
  double MeanNs() const;

  // The smallest recorded value that at least `fraction` (0 to 1) of the samples do not exceed, as
  // the middle of its bucket. 0 without samples.
  double PercentileNs(double fraction) const;

 private:
  static constexpr int kValueBits = 40;
  static constexpr uint64_t kMaxValue = (uint64_t{1} << kValueBits) - 1;

  static uint32_t BucketOf(uint64_t value);
  static double MiddleOf(uint32_t bucket);

  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0;
  uint64_t sum_ns_ = 0;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_LATENCY_RECORDER_H_
