#include "farcall/bench/measure/handover.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

namespace farcall::bench {
namespace {

// elapsed_ns cpu_ns errors, what the kernel counted (a minus: nothing), then ns:count for each
// round trip that was seen, then '|' and the first error.
constexpr char kEnd = '|';
// Of one round trip time; no run is so long.
constexpr uint64_t kMostCalls = uint64_t{1} << 32;

// Takes a number and the character behind it off the front of `line`.
bool Take(std::string_view& line, uint64_t& number, char behind) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || end == line.data() + line.size() || *end != behind) return false;
  line.remove_prefix(static_cast<size_t>(end - line.data()) + 1);
  return true;
}

// As Take; a minus is nothing.
bool Take(std::string_view& line, std::optional<uint64_t>& number) {
  if (line.starts_with("- ")) {
    line.remove_prefix(2);
    return true;
  }
  return Take(line, number.emplace(), ' ');
}

std::string TextOf(const std::optional<uint64_t>& number) {
  return number ? std::to_string(*number) + " " : "- ";
}

}  // namespace

std::string ToLine(const Measurement& measurement) {
  std::string line =
      std::to_string(measurement.elapsed_ns) + " " +
      std::to_string(measurement.cpu_ns.value_or(0)) + " " + std::to_string(measurement.errors) +
      " " + TextOf(measurement.counts.syscalls) + TextOf(measurement.counts.context_switches) +
      TextOf(measurement.counts.allocations);
  measurement.latency.ForEach([&](uint64_t ns, uint64_t count) {
    line += std::to_string(ns) + ":" + std::to_string(count) + " ";
  });
  line += kEnd + measurement.first_error;
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

absl::StatusOr<Measurement> FromLine(std::string_view line) {
  const absl::Status broken =
      absl::InvalidArgumentError("no measurement: '" + std::string(line.substr(0, 100)) + "'");
  Measurement measurement;
  if (!Take(line, measurement.elapsed_ns, ' ') || !Take(line, measurement.cpu_ns.emplace(), ' ') ||
      !Take(line, measurement.errors, ' ') || !Take(line, measurement.counts.syscalls) ||
      !Take(line, measurement.counts.context_switches) ||
      !Take(line, measurement.counts.allocations)) {
    return broken;
  }
  while (!line.empty() && line.front() != kEnd) {
    uint64_t ns = 0;
    uint64_t count = 0;
    if (!Take(line, ns, ':') || !Take(line, count, ' ') || count > kMostCalls) return broken;
    for (uint64_t i = 0; i < count; ++i) measurement.latency.Record(ns);
  }
  if (line.empty()) return broken;
  measurement.first_error = std::string(line.substr(1));
  return measurement;
}

}  // namespace farcall::bench
