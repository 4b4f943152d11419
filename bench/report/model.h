// What a report says, worked out from records. Pure: the printers (report/html.h) only write it
// down.
#ifndef FARCALL_BENCH_REPORT_MODEL_H_
#define FARCALL_BENCH_REPORT_MODEL_H_

#include <optional>
#include <string>
#include <vector>

#include "farcall/bench/measure/record.h"
#include "farcall/bench/report/chart.h"
#include "farcall/bench/report/targets.h"

namespace farcall::bench {

// A row of figures; an empty optional was not measured.
struct CostRow {
  std::string name;  // "shm busy"
  std::vector<std::optional<double>> values;
};

struct CostTable {
  std::string title;  // "What a call costs: 32 B there and back"
  std::string caption;
  std::vector<std::string> columns;  // those of which something was measured
  std::vector<CostRow> rows;
};

struct ReportModel {
  std::string headline;               // the answer in one line; empty without a small call
  std::vector<std::string> warnings;  // why figures are worth less, if they are
  std::vector<LineChart> charts;      // none of them empty
  std::vector<BarChart> bars;         // likewise
  std::vector<Verdict> verdicts;
  std::vector<CostTable> costs;
  std::vector<PartsChart> stages;       // where the time of a call goes
  std::vector<CostTable> stage_tables;  // the same in figures, one for each of them
  std::optional<CostTable> roce;        // what an RDMA adapter would take: an estimate
  Facts machine, versions, settings;
};

// `warnings` and the rest as the terminal has them.
ReportModel MakeModel(const Report& report, std::vector<std::string> warnings);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_REPORT_MODEL_H_
