#include "farcall/bench/measure/table.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <tuple>

#include "farcall/bench/measure/compare.h"

namespace farcall::bench {
namespace {

constexpr char kFloorPrefix[] = "floor/";

constexpr char kFootnote[] =
    "Medians over the rounds. 'time/floor' and 'rate/floor' are ours divided by the floor of the "
    "same "
    "transport\n"
    "and mode (no RPC): the p50 for latency, where 1.10 is 10 % slower than the floor; calls/s "
    "for\n"
    "throughput and MB/s for bulk, where 0.90 is 10 % below it. They are taken round by round, "
    "only "
    "where\n"
    "both ran at the same core distance (a virtual machine's host moves cores, which changes "
    "results up to\n"
    "threefold); the median of them is shown, with the lowest and highest behind it.\n"
    "'CPU us': processor time of both processes, a call. 'cores': how far apart the two pinned "
    "cores were.\n"
    "'rounds': those at that distance, which the row shows, of all that were measured.\n";

constexpr char kLoadFootnote[] =
    "'p50/alone' and 'p99/alone': ours with something beside it, divided by ours alone; "
    "beside payloads, MB/s\nis theirs.\n";

struct Row {
  std::string transport;
  std::string device;
  std::string mode;
  std::string path;
  Rounds rounds;
};

struct Block {
  std::string kind;
  uint64_t bytes = 0;
  uint64_t outstanding = 0;
  uint64_t connections = 1;
  uint64_t idle_connections = 0;
  uint64_t beside_bytes = 0;
  uint64_t load_percent = 0;
  std::vector<Row> rows;

  bool alone() const { return idle_connections == 0 && beside_bytes == 0; }
};

// What tells one block from another.
auto KeyOf(const auto& of) {
  return std::tie(of.kind, of.bytes, of.outstanding, of.connections, of.idle_connections,
                  of.beside_bytes, of.load_percent);
}

std::vector<Block> IntoBlocks(const std::vector<Record>& records) {
  std::vector<Block> blocks;
  for (const Record& record : records) {
    if (record.threshold || record.stages || record.estimate) continue;  // for charts alone
    auto block = std::find_if(blocks.begin(), blocks.end(),
                              [&](const Block& known) { return KeyOf(known) == KeyOf(record); });
    if (block == blocks.end()) {
      block = blocks.insert(block, {.kind = record.kind,
                                    .bytes = record.bytes,
                                    .outstanding = record.outstanding,
                                    .connections = record.connections,
                                    .idle_connections = record.idle_connections,
                                    .beside_bytes = record.beside_bytes,
                                    .load_percent = record.load_percent,
                                    .rows = {}});
    }
    auto row = std::find_if(block->rows.begin(), block->rows.end(), [&](const Row& known) {
      return std::tie(known.transport, known.device, known.mode, known.path) ==
             std::tie(record.transport, record.device, record.mode, record.path);
    });
    if (row == block->rows.end()) {
      row =
          block->rows.insert(row, {record.transport, record.device, record.mode, record.path, {}});
    }
    row->rounds.push_back(record);
  }
  return blocks;
}

// Whether less of it is better.
bool IsTime(const std::string& kind) {
  return kind == NameOf(Case::kLatency) || kind == NameOf(Case::kSendLat) ||
         kind == NameOf(Case::kReadLat);
}

// The figure in which a case is judged.
Figure JudgedBy(const std::string& kind) {
  if (IsTime(kind)) return &Record::p50_us;
  if (kind == NameOf(Case::kThroughput)) return &Record::calls_per_s;
  return &Record::mb_per_s;
}

double MedianOf(const Figure& figure, const Rounds& rounds) {
  std::vector<double> values;
  for (const Record& record : rounds) values.push_back(figure(record));
  return Median(std::move(values));
}

template <typename... Arguments>
std::string Format(const char* format, Arguments... arguments) {
  char text[256];
  std::snprintf(text, sizeof(text), format, arguments...);
  return text;
}

// At most three significant digits behind what is whole: finer means nothing here.
std::string FormatFigure(double value) {
  if (value < 10) return Format("%.2f", value);
  if (value < 1000) return Format("%.1f", value);
  return Format("%.0f", value);
}

bool IsFloor(const Row& row) { return row.transport.starts_with(kFloorPrefix); }

// The row that `row` is measured against; nullptr when there is none.
const Row* FloorOf(const Block& block, const Row& row) {
  const auto floor = std::find_if(block.rows.begin(), block.rows.end(), [&](const Row& candidate) {
    return candidate.transport == kFloorPrefix + row.transport && candidate.mode == row.mode;
  });
  return floor == block.rows.end() ? nullptr : &*floor;
}

// The row that says what `row` of `block` would be with nothing beside it; nullptr when there is
// none.
const Row* AloneOf(const std::vector<Block>& blocks, const Block& block, const Row& row) {
  Block alone = block;
  alone.idle_connections = 0;
  alone.beside_bytes = 0;
  for (const Block& candidate : blocks) {
    if (KeyOf(candidate) != KeyOf(alone)) continue;
    const auto same =
        std::find_if(candidate.rows.begin(), candidate.rows.end(), [&](const Row& other) {
          return other.transport == row.transport && other.mode == row.mode;
        });
    if (same != candidate.rows.end()) return &*same;
  }
  return nullptr;
}

// What a row is judged by, and the head of that column.
struct Judgement {
  Figure figure;
  const char* name;
};

Judgement JudgementOf(const Block& block) {
  if (block.beside_bytes > 0) return {&Record::p99_us, "p99/alone"};
  if (block.idle_connections > 0) return {JudgedBy(block.kind), "p50/alone"};
  return {JudgedBy(block.kind), IsTime(block.kind) ? "time/floor" : "rate/floor"};
}

std::string FormatRatio(const std::vector<Block>& blocks, const Block& block, const Row& row) {
  if (IsFloor(row)) return "floor";
  const Row* other = block.alone() ? FloorOf(block, row) : AloneOf(blocks, block, row);
  if (other == nullptr) return "-";
  const std::optional<Ratio> ratio = RatioOf(JudgementOf(block).figure, row.rounds, other->rounds);
  if (!ratio) return "no round at one core distance";
  return Format("%.2f (%.2f-%.2f)", ratio->median, ratio->lowest, ratio->highest);
}

std::string FormatCpu(const Rounds& rounds) {
  std::vector<double> values;
  for (const Record& record : rounds) {
    if (record.cpu_us_per_call) values.push_back(*record.cpu_us_per_call);
  }
  return values.empty() ? "-" : FormatFigure(Median(std::move(values)));
}

std::string FormatRow(const std::vector<Block>& blocks, const Block& block, const Row& row) {
  const Rounds rounds = LargestGroup(row.rounds);
  const std::string name = NameOfRow(row.transport, row.device, row.mode);
  return Format("  %-16s %9s %9s %9s %9s %8s  %-9s %zu/%zu  %s\n", name.c_str(),
                FormatFigure(MedianOf(&Record::p50_us, rounds)).c_str(),
                FormatFigure(MedianOf(&Record::p99_us, rounds)).c_str(),
                FormatFigure(MedianOf(&Record::calls_per_s, rounds)).c_str(),
                FormatFigure(MedianOf(&Record::mb_per_s, rounds)).c_str(),
                FormatCpu(rounds).c_str(), NameOf(GroupOf(rounds.front().core_distance_ns)),
                rounds.size(), row.rounds.size(), FormatRatio(blocks, block, row).c_str());
}

std::string Title(const Block& block) {
  std::string title =
      Format("%s %s, %llu outstanding", block.kind.c_str(), FormatBytes(block.bytes).c_str(),
             static_cast<unsigned long long>(block.outstanding));
  if (block.connections > 1) {
    title += Format(" over %llu connections", static_cast<unsigned long long>(block.connections));
  }
  if (block.load_percent > 0) {
    title += Format(" at most, at %llu %% of the rate above",
                    static_cast<unsigned long long>(block.load_percent));
  }
  if (block.idle_connections > 0) {
    title += Format(", beside %llu idle connections",
                    static_cast<unsigned long long>(block.idle_connections));
  }
  if (block.beside_bytes > 0) {
    title += ", beside payloads of " + FormatBytes(block.beside_bytes) + " on its connection";
  }
  return title + "\n";
}

}  // namespace

std::string NameOfRow(const std::string& transport, const std::string& device,
                      const std::string& mode) {
  if (transport == "floor/verbs") return transport + " " + device;
  return (transport == "rdma" ? transport + "/" + device : transport) + " " + mode;
}

std::string FormatBytes(uint64_t bytes) {
  constexpr uint64_t kKib = 1024;
  constexpr uint64_t kMib = kKib * kKib;
  if (bytes >= kMib && bytes % kMib == 0) return std::to_string(bytes / kMib) + " MiB";
  if (bytes >= kKib && bytes % kKib == 0) return std::to_string(bytes / kKib) + " KiB";
  return std::to_string(bytes) + " B";
}

std::string FormatTable(const std::vector<Record>& records) {
  std::string out;
  const std::vector<Block> blocks = IntoBlocks(records);
  bool all_alone = true;
  for (const Block& block : blocks) {
    all_alone = all_alone && block.alone();
    out += Title(block);
    out += Format("  %-16s %9s %9s %9s %9s %8s  %-9s %s  %s\n", "", "p50 us", "p99 us", "calls/s",
                  "MB/s", "CPU us", "cores", "rounds", JudgementOf(block).name);
    for (const Row& row : block.rows) out += FormatRow(blocks, block, row);
    out += '\n';
  }
  return out + kFootnote + (all_alone ? "" : kLoadFootnote);
}

std::string FormatHeadline(const std::vector<Record>& records) {
  for (const Block& block : IntoBlocks(records)) {
    if (block.kind != NameOf(Case::kLatency) || !block.alone()) continue;
    std::string line;
    for (const Row& row : block.rows) {
      if (IsFloor(row)) continue;
      const double us = MedianOf(&Record::p50_us, LargestGroup(row.rounds));
      line += (line.empty() ? "a " + FormatBytes(block.bytes) + " call: " : "; ") +
              FormatFigure(us) + " us over " + NameOfRow(row.transport, row.device, row.mode);
      const Row* floor = FloorOf(block, row);
      if (floor == nullptr) continue;
      const std::optional<Ratio> ratio = RatioOf(&Record::p50_us, row.rounds, floor->rounds);
      if (ratio) line += Format(" (%.2fx its floor)", ratio->median);
    }
    if (!line.empty()) return line + "\n";
  }
  return "";
}

}  // namespace farcall::bench
