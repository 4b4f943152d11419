// Histogram: how a great many values are spread, in fixed memory. Buckets are logarithmic, each
// power of two split evenly, as HdrHistogram's are.
//
// Recording is a few instructions and touches two cache lines. One thread at a time records, any
// thread reads or copies meanwhile (rpc/tally.h); a copy is a snapshot.

#ifndef FARCALL_RPC_HISTOGRAM_H_
#define FARCALL_RPC_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "farcall/rpc/tally.h"

namespace farcall {

// Values below 2 * kSubBuckets are exact; above, a quantile is at most 1 / (2 * kSubBuckets) off.
template <int SubBucketBits>
class Histogram {
 public:
  static constexpr uint64_t kSubBuckets = uint64_t{1} << SubBucketBits;
  // Larger values are counted as this one: in nanoseconds 18 minutes.
  static constexpr int kValueBits = 40;
  static constexpr uint64_t kMaxValue = (uint64_t{1} << kValueBits) - 1;

  // ---- the writer ----

  void Record(uint64_t value) {
    ++buckets_[BucketOf(value)];
    sum_ += value;
    if (value > max_) max_ = value;
  }

  // As if all that `other` recorded had been recorded here.
  void Add(const Histogram& other) {
    for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
    sum_ += other.sum_;
    max_ = std::max<uint64_t>(max_, other.max_);
  }

  // ---- any thread; all are 0 without values ----

  uint64_t count() const {
    uint64_t count = 0;
    for (const Tally& bucket : buckets_) count += bucket;
    return count;
  }
  uint64_t max() const { return max_; }  // exact
  double Mean() const {                  // exact
    const uint64_t values = count();
    return values == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(values);
  }

  // The smallest value that at least `fraction` (0 to 1) of all values do not exceed, as the middle
  // of its bucket.
  double Quantile(double fraction) const {
    const uint64_t values = count();
    if (values == 0) return 0;
    const double wanted = std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(values));
    const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, values);
    uint64_t seen = 0;
    size_t bucket = 0;
    while ((seen += buckets_[bucket]) < rank) ++bucket;  // counts only grow: it ends
    return MiddleOf(bucket);
  }

  // visit(value, count), ascending, for each value that was recorded `count` times; as a quantile
  // would say it, in whole numbers.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      const uint64_t count = buckets_[bucket];
      if (count > 0) visit(static_cast<uint64_t>(MiddleOf(bucket)), count);
    }
  }

 private:
  // Row 0 holds the values below kSubBuckets one by one; each further row holds one power of two,
  // [kSubBuckets << (row - 1), kSubBuckets << row), in kSubBuckets steps.
  static constexpr size_t BucketOf(uint64_t value) {
    value = std::min(value, kMaxValue);
    if (value < kSubBuckets) return static_cast<size_t>(value);
    const int shift = static_cast<int>(std::bit_width(value)) - 1 - SubBucketBits;
    const uint64_t row = static_cast<uint64_t>(shift) + 1;
    return static_cast<size_t>(row * kSubBuckets + (value >> shift) - kSubBuckets);
  }

  static constexpr double MiddleOf(size_t bucket) {
    if (bucket < 2 * kSubBuckets) return static_cast<double>(bucket);
    const uint64_t shift = bucket / kSubBuckets - 1;
    const uint64_t low = (bucket % kSubBuckets + kSubBuckets) << shift;
    return static_cast<double>(low) + static_cast<double>((uint64_t{1} << shift) - 1) / 2;
  }

  std::array<Tally, BucketOf(kMaxValue) + 1> buckets_{};
  Tally sum_;
  Tally max_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_HISTOGRAM_H_
