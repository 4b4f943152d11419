#include "farcall/bench/report/model.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "farcall/bench/measure/compare.h"
#include "farcall/bench/measure/table.h"
#include "farcall/bench/report/estimate.h"
#include "farcall/bench/report/stages.h"

namespace farcall::bench {
namespace {

using Which = std::function<bool(const Record&)>;

constexpr uint64_t kSmallBytes = 32;
constexpr uint64_t kDefaultThreshold = 8 << 10;  // RdmaOptions::eager_bytes
constexpr uint64_t kMiddleBytes = uint64_t{64} << 10;
constexpr uint64_t kLargeBytes = uint64_t{1} << 20;

// Colours by transport, of adapters by device. Those that are not known here share the last one.
int ColourOf(const Record& record) {
  std::string_view transport = record.transport;
  if (transport == "rdma") transport = record.device == "siw0" ? "loopback" : "shm";
  constexpr std::array<std::string_view, kColours - 1> kInOrder = {
      "tcp",           "shm",         "floor/tcp",  "floor/shm",          "loopback",
      "peer/ucx-shm",  "peer/thrift", "peer/capnp", "peer/grpc-callback", "peer/ucx-tcp",
      "peer/grpc-sync"};
  const auto* const at = std::find(kInOrder.begin(), kInOrder.end(), transport);
  return static_cast<int>(at - kInOrder.begin());
}

bool Ours(const Record& record) {
  return !record.transport.starts_with("floor/") && !record.transport.starts_with("peer/");
}

bool IsKind(const Record& record, Case kind) { return record.kind == NameOf(kind); }

std::string NameInCharts(const Record& record) {
  return record.transport.starts_with("peer/") || record.transport == "floor/shm"
             ? record.transport
             : NameOfRow(record.transport, record.device, record.mode);
}

Look LookOf(const Record& record) {
  return {.colour = ColourOf(record), .dashed = record.mode == NameOf(Mode::kEvent)};
}

// Ours first, then what is without RPC, then others.
int GroupOfRow(const Record& record) {
  return Ours(record) ? 0 : record.transport.starts_with("floor/") ? 1 : 2;
}

// The records that `which` takes, by row in an order that is the same in all charts, and within a
// row by `x`.
struct Row {
  std::string name;
  Look look;
  int group = 0;
  std::map<double, Rounds> at;
};

std::vector<Row> RowsOf(const std::vector<Record>& records, const Which& which, const Figure& x) {
  std::vector<Row> rows;
  for (const Record& record : records) {
    if (!which(record)) continue;
    const std::string name = NameInCharts(record);
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const Row& known) { return known.name == name; });
    if (row == rows.end()) row = rows.insert(row, {name, LookOf(record), GroupOfRow(record), {}});
    row->at[x(record)].push_back(record);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.group, a.look.colour, a.look.dashed) <
           std::tie(b.group, b.look.colour, b.look.dashed);
  });
  return rows;
}

double MedianOf(const Figure& figure, const Rounds& rounds) {
  std::vector<double> values;
  for (const Record& record : rounds) values.push_back(figure(record));
  return Median(std::move(values));
}

double BytesOf(const Record& record) { return static_cast<double>(record.bytes); }

// A curve a row; the band of ours reaches up to `upper`.
std::vector<Series> SeriesOf(const std::vector<Record>& records, const Which& which,
                             const Figure& x, const Figure& y, const Figure& upper) {
  std::vector<Series> all;
  for (const Row& row : RowsOf(records, which, x)) {
    Series series{row.name, row.look, {}};
    for (const auto& [at, measured] : row.at) {
      const Rounds rounds = LargestGroup(measured);
      const double value = MedianOf(y, rounds);
      series.points.push_back({at, value, Ours(rounds.front()) ? MedianOf(upper, rounds) : value});
    }
    // Two sizes far apart say nothing about those between.
    series.look.line = series.points.size() > 2 || Ours(row.at.begin()->second.front());
    all.push_back(std::move(series));
  }
  return all;
}

LineChart LatencyBySize(const std::vector<Record>& records) {
  return {.title = "Latency by size",
          .caption =
              "A call with so many bytes there and back, one at a time: the median, and "
              "for ours a band up to what nine of ten calls take at most. floor/… is what "
              "the machine does without RPC.",
          .x_name = "payload, each way",
          .y_name = "us",
          .x_scale = Scale::kBytes,
          .series = SeriesOf(
              records, [](const Record& of) { return of.alone() && IsKind(of, Case::kLatency); },
              BytesOf, &Record::p50_us, &Record::p90_us)};
}

// Shared memory with every payload forced to go one way, and then the other.
LineChart Crossover(const std::vector<Record>& records) {
  LineChart chart{.title = "Eager and rendezvous",
                  .caption =
                      "The same calls over shared memory (a software NIC), spinning, forced to one "
                      "way and then to the other: the payload travels in the message (eager), or "
                      "the receiver reads it where it lies (rendezvous). Where the lines cross is "
                      "where the default should change from one to the other: payloads of up to " +
                      FormatBytes(kDefaultThreshold) + " are eager.",
                  .x_name = "payload, each way",
                  .y_name = "us",
                  .x_scale = Scale::kBytes,
                  .series = {}};
  for (const char* path : {"eager", "rendezvous"}) {
    const Which which = [&](const Record& of) {
      return of.threshold.has_value() && IsKind(of, Case::kLatency) && of.path == path;
    };
    for (Series& series : SeriesOf(records, which, BytesOf, &Record::p50_us, &Record::p90_us)) {
      series.name += std::string(", all ") + path;
      series.look.colour = std::string_view(path) == "eager" ? 1 : 4;
      chart.series.push_back(std::move(series));
    }
  }
  return chart;
}

// A chart of its own kind when there is one size alone.
void AddBandwidth(const std::vector<Record>& records, Case kind, ReportModel& model) {
  const std::string title =
      kind == Case::kBulkRequest ? "Bandwidth of large requests" : "Bandwidth of large replies";
  const std::string caption =
      std::string("Payloads ") + (kind == Case::kBulkRequest ? "to the server" : "to the client") +
      ", several in flight. floor/shm is one memcpy between two processes with as many in flight, "
      "floor/tcp is plain sockets.";
  std::vector<Series> all = SeriesOf(
      records, [kind](const Record& of) { return of.alone() && IsKind(of, kind); }, BytesOf,
      &Record::mb_per_s, &Record::mb_per_s);
  std::set<double> sizes;
  for (const Series& series : all) {
    for (const Point& point : series.points) sizes.insert(point.x);
  }
  if (sizes.size() != 1) {
    model.charts.push_back({.title = title,
                            .caption = caption,
                            .x_name = "payload",
                            .y_name = "MB/s",
                            .x_scale = Scale::kBytes,
                            .series = std::move(all)});
    return;
  }
  BarChart chart{.title = title + ", " + FormatBytes(static_cast<uint64_t>(*sizes.begin())),
                 .caption = caption,
                 .unit = "MB/s",
                 .bars = {}};
  for (const Series& series : all) {
    chart.bars.push_back({series.name, series.look, series.points.front().y});
  }
  std::stable_sort(chart.bars.begin(), chart.bars.end(),
                   [](const Bar& a, const Bar& b) { return a.value > b.value; });
  model.bars.push_back(std::move(chart));
}

// A latency is a throughput with one call in flight.
LineChart ThroughputByConcurrency(const std::vector<Record>& records) {
  return {.title = "Throughput by calls in flight",
          .caption = "Calls of 32 B there and back on one connection, with so many in flight.",
          .x_name = "calls in flight",
          .y_name = "calls/s",
          .x_scale = Scale::kTwos,
          .series = SeriesOf(
              records,
              [](const Record& of) {
                return of.alone() && of.bytes == kSmallBytes &&
                       (IsKind(of, Case::kThroughput) || IsKind(of, Case::kLatency));
              },
              [](const Record& of) { return static_cast<double>(of.outstanding); },
              &Record::calls_per_s, &Record::calls_per_s)};
}

LineChart Distribution(const std::vector<Record>& records) {
  LineChart chart{.title = "How the latency of a small call is distributed",
                  .caption =
                      "32 B there and back, one call at a time: so many of the calls took no "
                      "longer than this.",
                  .x_name = "of all calls",
                  .y_name = "us",
                  .x_scale = Scale::kPercentile,
                  .series = {}};
  const std::array<std::pair<double, Figure>, 4> shares = {
      std::pair{0.5, Figure(&Record::p50_us)}, std::pair{0.9, Figure(&Record::p90_us)},
      std::pair{0.99, Figure(&Record::p99_us)}, std::pair{0.999, Figure(&Record::p999_us)}};
  const Which which = [](const Record& of) {
    return of.alone() && of.bytes == kSmallBytes && IsKind(of, Case::kLatency);
  };
  for (const Row& row : RowsOf(records, which, BytesOf)) {
    const Rounds rounds = LargestGroup(row.at.begin()->second);
    Series series{row.name, row.look, {}};
    for (const auto& [share, figure] : shares) {
      const double value = MedianOf(figure, rounds);
      series.points.push_back({share, value, value});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// The median over the rounds that have it.
std::optional<double> MedianOf(std::optional<double> Record::*figure, const Rounds& rounds) {
  std::vector<double> values;
  for (const Record& record : rounds) {
    if (record.*figure) values.push_back(*(record.*figure));
  }
  if (values.empty()) return std::nullopt;
  return Median(std::move(values));
}

BarChart CpuOfACall(const std::vector<Record>& records) {
  BarChart chart{.title = "CPU time of a call",
                 .caption =
                     "User and system time of both processes, for a call of 32 B there and "
                     "back, one at a time. Who spins uses all that passes.",
                 .unit = "us",
                 .bars = {}};
  const Which which = [](const Record& of) {
    return of.alone() && of.bytes == kSmallBytes && IsKind(of, Case::kLatency);
  };
  for (const Row& row : RowsOf(records, which, BytesOf)) {
    const std::optional<double> cpu =
        MedianOf(&Record::cpu_us_per_call, LargestGroup(row.at.begin()->second));
    if (cpu) chart.bars.push_back({row.name, row.look, *cpu});
  }
  std::stable_sort(chart.bars.begin(), chart.bars.end(),
                   [](const Bar& a, const Bar& b) { return a.value < b.value; });
  return chart;
}

struct CostColumn {
  const char* name;
  std::optional<double> Costs::*figure;
};

constexpr std::array<CostColumn, 11> kCostColumns = {{
    {"system calls", &Costs::syscalls},
    {"context switches", &Costs::context_switches},
    {"allocations", &Costs::allocations},
    {"bytes copied", &Costs::copied_bytes},
    {"sends", &Costs::send_calls},
    {"receives", &Costs::receive_calls},
    {"SENDs", &Costs::sends},
    {"READs", &Costs::reads},
    {"doorbells", &Costs::doorbells},
    {"completions", &Costs::signalled},
    {"registrations", &Costs::registrations},
}};

CostTable CostsOf(const std::vector<Record>& records, uint64_t bytes) {
  CostTable table{
      .title = "What a call costs: " + FormatBytes(bytes) + " there and back, one call at a time",
      .caption =
          "Client and server added, counted in a pass of its own. A dash: not counted. Counts "
          "depend "
          "on no machine: they are what RDMA saves. Who spins over TCP asks the kernel again and "
          "again: its system calls are those. bytes copied: of the payload, in user space. sends, "
          "receives: system calls that moved data, or lists of work requests and messages.",
      .columns = {},
      .rows = {}};
  const std::vector<Row> rows = RowsOf(
      records,
      [bytes](const Record& of) {
        return of.alone() && of.bytes == bytes && IsKind(of, Case::kLatency);
      },
      BytesOf);
  for (const Row& row : rows) table.rows.push_back({row.name, {}});
  for (const CostColumn& column : kCostColumns) {
    std::vector<std::optional<double>> values;
    values.reserve(rows.size());
    for (const Row& row : rows) {
      values.push_back(row.at.begin()->second.front().costs.*column.figure);
    }
    if (std::none_of(values.begin(), values.end(), [](const auto& value) { return value; })) {
      continue;
    }
    table.columns.emplace_back(column.name);
    for (size_t i = 0; i < rows.size(); ++i) table.rows[i].values.push_back(values[i]);
  }
  return table;
}

// Who is named in the answer, and how.
constexpr std::array<std::array<const char*, 3>, 6> kInAnswer = {{
    {"rdma", "busy", "over busy "},
    {"shm", "busy", "over the software NIC"},
    {"tcp", "busy", "over busy TCP"},
    {"tcp", "event", "over sleeping TCP"},
    {"peer/ucx-shm", "busy", "with UCX over shared memory"},
    {"peer/grpc-callback", "event", "with gRPC"},
}};

std::string AnswerOf(const std::vector<Record>& records) {
  std::string answer;
  for (const auto& [transport, mode, how] : kInAnswer) {
    Rounds rounds;
    std::copy_if(records.begin(), records.end(), std::back_inserter(rounds), [&](const Record& of) {
      return of.transport == transport && of.mode == mode && of.alone() &&
             of.bytes == kSmallBytes && IsKind(of, Case::kLatency);
    });
    // Several adapters are a figure each.
    std::map<std::string, Rounds> by_device;
    for (const Record& of : rounds) by_device[of.device].push_back(of);
    for (const auto& [device, measured] : by_device) {
      answer += (answer.empty() ? "A 32-byte call: " : ", ") +
                ShortNumber(MedianOf(&Record::p50_us, LargestGroup(measured))) + " us " + how +
                (std::string_view(transport) == "rdma" ? device : "");
    }
  }
  return answer;
}

// Of what the guest of tests/guest has.
bool IsSoftwareRdma(const Record& record) {
  return record.device.starts_with("rxe") || record.device.starts_with("siw");
}

constexpr char kSoftwareRdma[] =
    "rxe and siw are no RDMA hardware: the kernel does in software what an adapter would do, with "
    "a "
    "system call for each post, on a machine that is emulated itself. No time or rate here says "
    "anything about RDMA; only ratios of what ran in the same round count, of ours to perftest, "
    "which does the same operations without calls, and the numbers of operations.";

bool Empty(const LineChart& chart) {
  return std::all_of(chart.series.begin(), chart.series.end(),
                     [](const Series& series) { return series.points.empty(); });
}

}  // namespace

ReportModel MakeModel(const Report& report, std::vector<std::string> warnings) {
  const std::vector<Record>& records = report.records;
  if (std::any_of(records.begin(), records.end(), IsSoftwareRdma)) {
    warnings.insert(warnings.begin(), kSoftwareRdma);
  }
  ReportModel model{.headline = AnswerOf(records),
                    .warnings = std::move(warnings),
                    .charts = {LatencyBySize(records), Distribution(records), Crossover(records),
                               ThroughputByConcurrency(records)},
                    .bars = {CpuOfACall(records)},
                    .verdicts = Judge(records),
                    .costs = {CostsOf(records, kSmallBytes), CostsOf(records, kMiddleBytes),
                              CostsOf(records, kLargeBytes)},
                    .stages = {},
                    .stage_tables = {},
                    .roce = {},
                    .machine = report.machine,
                    .versions = report.versions,
                    .settings = report.settings};
  for (const uint64_t bytes : {kSmallBytes, kMiddleBytes, kLargeBytes}) {
    PartsChart stages = StagesOf(records, bytes);
    if (stages.bars.empty()) continue;
    if (!model.stages.empty()) stages.caption = "The same, as above, for larger payloads.";
    model.stages.push_back(std::move(stages));
    model.stage_tables.push_back(StageTableOf(records, bytes));
  }
  model.roce = RoceTable(EstimateRoce(records));
  AddBandwidth(records, Case::kBulkRequest, model);
  AddBandwidth(records, Case::kBulkReply, model);
  std::erase_if(model.charts, Empty);
  std::erase_if(model.bars, [](const BarChart& chart) { return chart.bars.empty(); });
  std::erase_if(model.costs, [](const CostTable& table) { return table.columns.empty(); });
  return model;
}

}  // namespace farcall::bench
