#include "farcall/bench/report/stages.h"

#include <algorithm>
#include <string>
#include <utility>

#include "farcall/bench/measure/table.h"

namespace farcall::bench {
namespace {

template <class Visit>
void ForEach(const std::vector<Record>& records, uint64_t bytes, Visit&& visit) {
  for (const Record& record : records) {
    if (record.stages && record.bytes == bytes && record.mean_us > 0) visit(record);
  }
}

}  // namespace

PartsChart StagesOf(const std::vector<Record>& records, uint64_t bytes) {
  PartsChart chart{
      .title = "Where the time of a call goes: " + FormatBytes(bytes) + " there and back",
      .caption =
          "Shares of one call, both ways added, by a copy of the library with probes in it, client "
          "and server in one process. build: the request is made; post: it is given to the device "
          "or the kernel; wire: until the other side looks, or was woken; poll: the look that "
          "finds "
          "it; payload: what is on its way still; verify, dispatch: until the handler runs; reply: "
          "it becomes a message; finish: the caller has it, and has checked it. Averages over the "
          "middle half of the calls.",
      .unit = "us",
      .parts = {},
      .bars = {}};
  for (const auto& [name, stage] : kStages) chart.parts.emplace_back(name);
  double probes_us = 0;
  ForEach(records, bytes, [&](const Record& record) {
    PartsChart::Whole bar{record.transport + " " + record.mode, {}};
    for (const auto& [name, stage] : kStages) bar.parts.push_back((*record.stages).*stage);
    chart.bars.push_back(std::move(bar));
    probes_us = std::max(probes_us, record.stages->probes);
  });
  chart.caption += " Of each call the probes themselves take " + ShortNumber(probes_us) + " us.";
  return chart;
}

CostTable StageTableOf(const std::vector<Record>& records, uint64_t bytes) {
  CostTable table{.title = "", .caption = "", .columns = {}, .rows = {}};
  for (const auto& [name, stage] : kStages) table.columns.emplace_back(name);
  table.columns.emplace_back("all, us");
  ForEach(records, bytes, [&](const Record& record) {
    CostRow row{record.transport + " " + record.mode, {}};
    for (const auto& [name, stage] : kStages) row.values.emplace_back((*record.stages).*stage);
    row.values.emplace_back(record.mean_us);
    table.rows.push_back(std::move(row));
  });
  return table;
}

}  // namespace farcall::bench
