#include "farcall/bench/measure/latency_recorder.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace farcall::bench {

// Row 0 holds the values below kSubBuckets one by one; each further row holds one power of two,
// [kSubBuckets << (row - 1), kSubBuckets << row), in kSubBuckets steps.
LatencyRecorder::LatencyRecorder() : buckets_(BucketOf(kMaxValue) + 1) {}

uint32_t LatencyRecorder::BucketOf(uint64_t value) {
  value = std::min(value, kMaxValue);
  if (value < kSubBuckets) return static_cast<uint32_t>(value);
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kSubBucketBits;
  const uint64_t row = static_cast<uint64_t>(shift) + 1;
  return static_cast<uint32_t>(row * kSubBuckets + (value >> shift) - kSubBuckets);
}

double LatencyRecorder::MiddleOf(uint32_t bucket) {
  if (bucket < 2 * kSubBuckets) return bucket;
  const uint64_t shift = bucket / kSubBuckets - 1;
  const uint64_t low = (bucket % kSubBuckets + kSubBuckets) << shift;
  return static_cast<double>(low) + static_cast<double>((uint64_t{1} << shift) - 1) / 2;
}

double LatencyRecorder::MeanNs() const {
  if (count_ == 0) return 0;
  return static_cast<double>(sum_ns_) / static_cast<double>(count_);
}

double LatencyRecorder::PercentileNs(double fraction) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_));
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, count_);
  uint64_t seen = 0;
  for (uint32_t bucket = 0;; ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) return MiddleOf(bucket);
  }
}

}  // namespace farcall::bench
