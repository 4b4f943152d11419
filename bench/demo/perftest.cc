#include "farcall/bench/demo/perftest.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>

namespace farcall::bench {
namespace {

// How often each is done; on an emulated machine a fraction of a second to two seconds.
constexpr int kSends = 2000;
constexpr int kReads = 1000;
constexpr int kStreamedReads = 1500;
// Of a latency's operations, one in so many is warm-up.
constexpr size_t kWarmUpShare = 10;

constexpr double kNsPerUs = 1e3;
// Its 'MB' of a bandwidth.
constexpr double kMib = 1 << 20;

const char* ProgramOf(Case kind) {
  switch (kind) {
    case Case::kSendLat:
      return "ib_send_lat";
    case Case::kReadLat:
      return "ib_read_lat";
    default:
      return "ib_read_bw";
  }
}

// Takes the next line off the front of `text`; nullopt: there is none.
std::optional<std::string_view> NextLine(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Takes the next number of a line off its front; nullopt: something else is there.
std::optional<double> NextNumber(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t,"), line.size()));
  double number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc()) return std::nullopt;
  line.remove_prefix(static_cast<size_t>(end - line.data()));
  return number;
}

absl::Status NoClock(Case kind) {
  return absl::UnavailableError(std::string(ProgramOf(kind)) +
                                " did not find out how fast the processor's clock is");
}

absl::Status NoFigures(Case kind, std::string_view output) {
  constexpr size_t kShown = 500;
  if (output.size() > kShown) output.remove_prefix(output.size() - kShown);
  return absl::InvalidArgumentError(std::string(ProgramOf(kind)) +
                                    " printed no figures: " + std::string(output));
}

// "#, usec", then a line "number, us" for each operation.
absl::StatusOr<Measurement> FromLatencies(const Workload& workload, std::string_view output) {
  const size_t head = output.find("#, usec\n");
  if (head == std::string_view::npos) return NoFigures(workload.kind, output);
  std::string_view lines = output.substr(head);
  NextLine(lines);
  std::vector<double> all;
  while (std::optional<std::string_view> line = NextLine(lines)) {
    const std::optional<double> number = NextNumber(*line);
    const std::optional<double> us = number ? NextNumber(*line) : std::nullopt;
    if (!us) break;
    if (!std::isfinite(*us) || *us <= 0) return NoClock(workload.kind);
    all.push_back(*us);
  }
  Measurement measurement;
  for (size_t i = all.size() / kWarmUpShare; i < all.size(); ++i) {
    const auto ns = static_cast<uint64_t>(all[i] * kNsPerUs);
    measurement.latency.Record(ns);
    measurement.elapsed_ns += workload.kind == Case::kSendLat ? 2 * ns : ns;
  }
  if (measurement.elapsed_ns == 0) return NoFigures(workload.kind, output);
  return measurement;
}

// A table of one row: bytes, iterations, the peak, the average, and a rate.
absl::StatusOr<Measurement> FromBandwidth(const Workload& workload, std::string_view output) {
  const size_t head = output.find("#bytes");
  if (head == std::string_view::npos) return NoFigures(workload.kind, output);
  std::string_view lines = output.substr(head);
  NextLine(lines);
  std::string_view row = NextLine(lines).value_or("");
  const std::optional<double> bytes = NextNumber(row);
  const std::optional<double> reads = bytes ? NextNumber(row) : std::nullopt;
  const std::optional<double> peak = reads ? NextNumber(row) : std::nullopt;
  const std::optional<double> average = peak ? NextNumber(row) : std::nullopt;
  if (!average || *bytes != static_cast<double>(workload.bytes) || *reads < 1 || *reads > 1e9) {
    return NoFigures(workload.kind, output);
  }
  if (!std::isfinite(*average) || *average <= 0) return NoClock(workload.kind);
  const double ns_a_read = *bytes / (*average * kMib) * 1e9;
  Measurement measurement;
  measurement.elapsed_ns = static_cast<uint64_t>(ns_a_read * *reads);
  for (int i = 0; i < static_cast<int>(*reads); ++i) {
    measurement.latency.Record(static_cast<uint64_t>(ns_a_read * workload.outstanding));
  }
  return measurement;
}

}  // namespace

std::vector<std::string> PerftestCommand(const Workload& workload) {
  std::vector<std::string> command = {ProgramOf(workload.kind), "-s",
                                      std::to_string(workload.bytes), "-n"};
  switch (workload.kind) {
    case Case::kSendLat:
      command.insert(command.end(), {std::to_string(kSends), "-U"});
      break;
    case Case::kReadLat:
      command.insert(command.end(), {std::to_string(kReads), "-U"});
      break;
    default: {
      const std::string depth = std::to_string(workload.outstanding);
      command.insert(command.end(), {std::to_string(kStreamedReads), "-t", depth, "-o", depth});
    }
  }
  return command;
}

absl::StatusOr<Measurement> FromPerftest(const Workload& workload, std::string_view output) {
  return workload.kind == Case::kReadBw ? FromBandwidth(workload, output)
                                        : FromLatencies(workload, output);
}

}  // namespace farcall::bench
