#include "farcall/bench/measure/record.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <type_traits>

namespace farcall::bench {
namespace {

constexpr double kNsPerUs = 1e3;
constexpr double kNsPerSecond = 1e9;
constexpr double kBytesPerMb = 1e6;

void AppendString(std::string_view text, std::string& out) {
  out += '"';
  for (const char character : text) {
    const auto code = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      out += '\\';
      out += character;
    } else if (code < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      out += "\\u00";
      out += kHex[code >> 4];
      out += kHex[code & 15];
    } else {
      out += character;
    }
  }
  out += '"';
}

template <typename Number>
void AppendNumber(Number number, std::string& out) {
  char digits[32];
  std::to_chars_result end{};
  if constexpr (std::is_floating_point_v<Number>) {
    // Six significant digits are far finer than any measurement here.
    end = std::to_chars(digits, digits + sizeof(digits), number, std::chars_format::general, 6);
  } else {
    end = std::to_chars(digits, digits + sizeof(digits), number);
  }
  out.append(digits, end.ptr);
}

// Writes the fields of one JSON object; left out is what has no value.
class ObjectWriter {
 public:
  explicit ObjectWriter(std::string& out) : out_(out) { out_ += '{'; }

  void Add(std::string_view name, std::string_view text) {
    Begin(name);
    AppendString(text, out_);
  }
  void Add(std::string_view name, uint64_t number) {
    Begin(name);
    AppendNumber(number, out_);
  }
  void Add(std::string_view name, double number) {
    if (!std::isfinite(number)) return;
    Begin(name);
    AppendNumber(number, out_);
  }
  void Add(std::string_view name, std::optional<double> number) {
    if (number) Add(name, *number);
  }
  void End() { out_ += '}'; }

 private:
  void Begin(std::string_view name) {
    if (!first_) out_ += ", ";
    first_ = false;
    AppendString(name, out_);
    out_ += ": ";
  }

  std::string& out_;
  bool first_ = true;
};

void AppendRecord(const Record& record, std::string& out) {
  ObjectWriter object(out);
  object.Add("transport", record.transport);
  object.Add("device", record.device);
  object.Add("mode", record.mode);
  object.Add("case", record.kind);
  object.Add("path", record.path);
  object.Add("bytes", record.bytes);
  object.Add("outstanding", record.outstanding);
  object.Add("connections", record.connections);
  if (record.idle_connections > 0) object.Add("idle_connections", record.idle_connections);
  if (record.beside_bytes > 0) object.Add("beside_bytes", record.beside_bytes);
  object.Add("round", record.round);
  object.Add("core_distance_ns", record.core_distance_ns);
  object.Add("samples", record.samples);
  object.Add("errors", record.errors);
  object.Add("p50_us", record.p50_us);
  object.Add("p90_us", record.p90_us);
  object.Add("p99_us", record.p99_us);
  object.Add("p999_us", record.p999_us);
  object.Add("mean_us", record.mean_us);
  object.Add("calls_per_s", record.calls_per_s);
  object.Add("mb_per_s", record.mb_per_s);
  object.Add("cpu_us_per_call", record.cpu_us_per_call);
  object.Add("allocations_per_call", record.allocations_per_call);
  object.Add("copied_bytes_per_call", record.copied_bytes_per_call);
  object.Add("syscalls_per_call", record.syscalls_per_call);
  object.Add("sends_per_call", record.sends_per_call);
  object.Add("reads_per_call", record.reads_per_call);
  object.Add("doorbells_per_call", record.doorbells_per_call);
  object.Add("signalled_per_call", record.signalled_per_call);
  object.Add("registrations_per_call", record.registrations_per_call);
  object.End();
}

void AppendFacts(const Facts& facts, std::string& out) {
  ObjectWriter object(out);
  for (const auto& [name, value] : facts) {
    std::visit([&, &key = name](const auto& known) { object.Add(key, known); }, value);
  }
  object.End();
}

}  // namespace

void SetFigures(const Workload& workload, const Measurement& measurement, Record& record) {
  const LatencyRecorder& latency = measurement.latency;
  const auto calls = static_cast<double>(latency.count());
  record.kind = NameOf(workload.kind);
  record.bytes = workload.bytes;
  record.outstanding = static_cast<uint64_t>(workload.outstanding);
  record.connections = static_cast<uint64_t>(workload.connections);
  record.idle_connections = static_cast<uint64_t>(workload.idle_connections);
  record.beside_bytes = workload.beside_bytes;
  record.samples = latency.count();
  record.errors = measurement.errors;
  record.p50_us = latency.PercentileNs(0.5) / kNsPerUs;
  record.p90_us = latency.PercentileNs(0.9) / kNsPerUs;
  record.p99_us = latency.PercentileNs(0.99) / kNsPerUs;
  record.p999_us = latency.PercentileNs(0.999) / kNsPerUs;
  record.mean_us = latency.MeanNs() / kNsPerUs;
  record.calls_per_s = calls * kNsPerSecond / static_cast<double>(measurement.elapsed_ns);
  record.mb_per_s = workload.beside_bytes > 0
                        ? measurement.beside_mb_per_s
                        : record.calls_per_s * static_cast<double>(workload.bytes) / kBytesPerMb;
  record.cpu_us_per_call = static_cast<double>(measurement.cpu_ns) / calls / kNsPerUs;
}

std::string ToJson(const Report& report) {
  std::string out = "{\n\"machine\": ";
  AppendFacts(report.machine, out);
  out += ",\n\"versions\": ";
  AppendFacts(report.versions, out);
  out += ",\n\"settings\": ";
  AppendFacts(report.settings, out);
  out += ",\n\"records\": [";
  const char* separator = "\n";
  for (const Record& record : report.records) {
    out += separator;
    AppendRecord(record, out);
    separator = ",\n";
  }
  out += "\n]}\n";
  return out;
}

}  // namespace farcall::bench
