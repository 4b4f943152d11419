#include "farcall/bench/measure/record.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <type_traits>
#include <utility>

#include "farcall/bench/measure/record_fields.h"

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
  template <typename Number>
  void Add(std::string_view name, const std::optional<Number>& number) {
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

template <typename Value>
const Value& Written(const Value& value) {
  return value;
}
std::optional<uint64_t> Written(uint64_t number, UnlessZero) {
  return number > 0 ? std::optional(number) : std::nullopt;
}

void AppendRecord(const Record& record, std::string& out) {
  ObjectWriter object(out);
  ForEachField(record, [&](const char* name, const auto& value, auto... unless_zero) {
    object.Add(name, Written(value, unless_zero...));
  });
  object.End();
}

// One line of a CSV file.
class CsvLine {
 public:
  explicit CsvLine(std::string& out) : out_(out) {}

  void Add(std::string_view text) {
    Begin();
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
      out_ += text;
      return;
    }
    out_ += '"';
    for (const char character : text) out_.append(character == '"' ? 2 : 1, character);
    out_ += '"';
  }
  void Add(uint64_t number) {
    Begin();
    AppendNumber(number, out_);
  }
  void Add(double number) {
    Begin();
    if (std::isfinite(number)) AppendNumber(number, out_);
  }
  template <typename Number>
  void Add(const std::optional<Number>& number) {
    if (number) {
      Add(*number);
    } else {
      Begin();
    }
  }
  void End() { out_ += "\r\n"; }

 private:
  void Begin() {
    if (!std::exchange(first_, false)) out_ += ',';
  }

  std::string& out_;
  bool first_ = true;
};

void AppendFacts(const Facts& facts, std::string& out) {
  ObjectWriter object(out);
  for (const auto& [name, value] : facts) {
    std::visit([&, &key = name](const auto& known) { object.Add(key, known); }, value);
  }
  object.End();
}

}  // namespace

void SetFigures(const Workload& workload, const Measurement& measurement, Record& record) {
  const Latencies& latency = measurement.latency;
  const auto calls = static_cast<double>(latency.count());
  record.kind = NameOf(workload.kind);
  record.bytes = workload.bytes;
  record.outstanding = static_cast<uint64_t>(workload.outstanding);
  record.connections = static_cast<uint64_t>(workload.connections);
  record.idle_connections = static_cast<uint64_t>(workload.idle_connections);
  record.beside_bytes = workload.beside_bytes;
  record.load_percent = static_cast<uint64_t>(workload.load_percent);
  record.samples = latency.count();
  record.errors = measurement.errors;
  record.p50_us = latency.Quantile(0.5) / kNsPerUs;
  record.p90_us = latency.Quantile(0.9) / kNsPerUs;
  record.p99_us = latency.Quantile(0.99) / kNsPerUs;
  record.p999_us = latency.Quantile(0.999) / kNsPerUs;
  record.mean_us = latency.Mean() / kNsPerUs;
  record.calls_per_s = calls * kNsPerSecond / static_cast<double>(measurement.elapsed_ns);
  record.mb_per_s = workload.beside_bytes > 0
                        ? measurement.beside_mb_per_s
                        : record.calls_per_s * static_cast<double>(workload.bytes) / kBytesPerMb;
  if (measurement.cpu_ns) {
    record.cpu_us_per_call = static_cast<double>(*measurement.cpu_ns) / calls / kNsPerUs;
  }
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

std::string ToCsv(const std::vector<Record>& records) {
  std::string out;
  CsvLine names(out);
  const Record any;
  ForEachField(any,
               [&](const char* name, const auto&, auto...) { names.Add(std::string_view(name)); });
  names.End();
  for (const Record& record : records) {
    CsvLine line(out);
    ForEachField(record, [&](const char*, const auto& value, auto... unless_zero) {
      line.Add(Written(value, unless_zero...));
    });
    line.End();
  }
  return out;
}

}  // namespace farcall::bench
