#include "farcall/rpc/histogram.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace farcall {
namespace {

// The definition, by brute force: the smallest value that `fraction` of the samples do not exceed.
double QuantileBySorting(std::vector<uint64_t> samples, double fraction) {
  std::sort(samples.begin(), samples.end());
  const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(samples.size())));
  return static_cast<double>(samples[std::max<size_t>(rank, 1) - 1]);
}

template <int kBits>
void ExpectSameAsSorting(const std::vector<uint64_t>& samples) {
  Histogram<kBits> histogram;
  double sum = 0;
  for (const uint64_t sample : samples) {
    histogram.Record(sample);
    sum += static_cast<double>(sample);
  }
  CHECK(histogram.count() == samples.size());
  CHECK(histogram.max() == *std::max_element(samples.begin(), samples.end()));
  CHECK(histogram.Mean() == Approx(sum / static_cast<double>(samples.size())));
  for (const double fraction : {0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    CAPTURE(fraction);
    const double expected = QuantileBySorting(samples, fraction);
    const double tolerance = expected / static_cast<double>(2 * Histogram<kBits>::kSubBuckets);
    CHECK(std::abs(histogram.Quantile(fraction) - expected) <= tolerance);
  }

  Histogram<kBits> again;
  uint64_t last = 0;
  histogram.ForEach([&](uint64_t value, uint64_t count) {
    CHECK((again.count() == 0 || value > last));
    last = value;
    for (uint64_t i = 0; i < count; ++i) again.Record(value);
  });
  CHECK(again.count() == samples.size());
  for (const double fraction : {0.0, 0.25, 0.5, 0.999, 1.0}) {
    CHECK(again.Quantile(fraction) == histogram.Quantile(fraction));
  }
}

void ExpectSameAsSorting(const std::vector<uint64_t>& samples) {
  ExpectSameAsSorting<2>(samples);
  ExpectSameAsSorting<4>(samples);
  ExpectSameAsSorting<8>(samples);
}

TEST_CASE("quantiles agree with sorting, whatever the distribution") {
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
  for (uint64_t value = 0; value < 2 * Histogram<8>::kSubBuckets; ++value) {
    Histogram<8> histogram;
    histogram.Record(value);
    REQUIRE(histogram.Quantile(0.5) == static_cast<double>(value));
  }
}

TEST_CASE("each power of two and its neighbours land in a bucket of theirs") {
  for (int bit = 0; bit < 40; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    ExpectSameAsSorting({power - 1, power, power + 1});
  }
}

TEST_CASE("values beyond the range stay in the last bucket") {
  Histogram<8> histogram;
  histogram.Record(uint64_t{1} << 62);
  const double range = std::ldexp(1.0, 40);
  CHECK(histogram.Quantile(1.0) < range);
  CHECK(histogram.Quantile(1.0) > range * 0.99);
  CHECK(histogram.max() == uint64_t{1} << 62);
}

TEST_CASE("no samples are zero, not a crash") {
  const Histogram<4> histogram;
  CHECK(histogram.count() == 0);
  CHECK(histogram.max() == 0);
  CHECK(histogram.Quantile(0.5) == 0);
  CHECK(histogram.Mean() == 0);
}

TEST_CASE("histograms add up") {
  Histogram<4> first;
  Histogram<4> second;
  Histogram<4> both;
  for (uint64_t value = 1; value < 1'000'000; value += 997) {
    (value % 2 == 0 ? first : second).Record(value);
    both.Record(value);
  }
  first.Add(second);
  CHECK(first.count() == both.count());
  CHECK(first.Mean() == both.Mean());
  CHECK(first.max() == both.max());
  for (const double fraction : {0.1, 0.5, 0.99}) {
    CHECK(first.Quantile(fraction) == both.Quantile(fraction));
  }
}

TEST_CASE("a snapshot may be taken while another thread records") {
  constexpr uint64_t kValues = 200'000;
  const auto histogram = std::make_unique<Histogram<4>>();
  std::atomic<bool> done{false};
  std::thread recording([&] {
    for (uint64_t value = 1; value <= kValues; ++value) histogram->Record(value);
    done = true;
  });
  uint64_t seen = 0;
  bool grows = true;
  bool plausible = true;
  while (!done) {
    const auto snapshot = std::make_unique<Histogram<4>>(*histogram);
    grows = grows && snapshot->count() >= seen;
    seen = snapshot->count();
    const double median = snapshot->Quantile(0.5);
    plausible = plausible && median <= static_cast<double>(kValues);
  }
  recording.join();
  CHECK(grows);
  CHECK(plausible);
  CHECK(histogram->count() == kValues);
}

}  // namespace
}  // namespace farcall
