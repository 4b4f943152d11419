#include "farcall/bench/measure/latency_recorder.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace farcall::bench {
namespace {

// The definition, by brute force: the smallest value that `fraction` of the samples do not exceed.
double PercentileBySorting(std::vector<uint64_t> samples, double fraction) {
  std::sort(samples.begin(), samples.end());
  const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(samples.size())));
  return static_cast<double>(samples[std::max<size_t>(rank, 1) - 1]);
}

void ExpectSameAsSorting(const std::vector<uint64_t>& samples) {
  LatencyRecorder recorder;
  double sum = 0;
  for (const uint64_t sample : samples) {
    recorder.Record(sample);
    sum += static_cast<double>(sample);
  }
  CHECK(recorder.count() == samples.size());
  CHECK(recorder.MeanNs() == Approx(sum / static_cast<double>(samples.size())));
  for (const double fraction : {0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    CAPTURE(fraction);
    const double expected = PercentileBySorting(samples, fraction);
    const double tolerance = expected / static_cast<double>(LatencyRecorder::kSubBuckets);
    CHECK(std::abs(recorder.PercentileNs(fraction) - expected) <= tolerance);
  }
}

TEST_CASE("percentiles agree with sorting, whatever the distribution") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> latency(11, 2);  // around 60 us, with a long tail
  std::uniform_int_distribution<int> bits(0, 39);
  for (const size_t count : {1u, 2u, 3u, 10u, 1000u, 20000u}) {
    CAPTURE(count);
    std::vector<uint64_t> like_latencies;
    std::vector<uint64_t> of_all_magnitudes;
    for (size_t i = 0; i < count; ++i) {
      like_latencies.push_back(static_cast<uint64_t>(std::min(latency(random), 1e12)));
      of_all_magnitudes.push_back(random() >> (63 - bits(random)));
    }
    ExpectSameAsSorting(like_latencies);
    ExpectSameAsSorting(of_all_magnitudes);
  }
}

TEST_CASE("small values are exact") {
  for (uint64_t value = 0; value < 2 * LatencyRecorder::kSubBuckets; ++value) {
    LatencyRecorder recorder;
    recorder.Record(value);
    REQUIRE(recorder.PercentileNs(0.5) == static_cast<double>(value));
  }
}

TEST_CASE("each power of two and its neighbours land in a bucket of theirs") {
  for (int bit = 0; bit < 40; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    ExpectSameAsSorting({power - 1, power, power + 1});
  }
}

TEST_CASE("values beyond the range stay in the last bucket") {
  LatencyRecorder recorder;
  recorder.Record(uint64_t{1} << 62);
  const double range = std::ldexp(1.0, 40);
  CHECK(recorder.PercentileNs(1.0) < range);
  CHECK(recorder.PercentileNs(1.0) > range * 0.99);
}

TEST_CASE("no samples are zero, not a crash") {
  const LatencyRecorder recorder;
  CHECK(recorder.count() == 0);
  CHECK(recorder.PercentileNs(0.5) == 0);
  CHECK(recorder.MeanNs() == 0);
}

}  // namespace
}  // namespace farcall::bench
