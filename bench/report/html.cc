#include "farcall/bench/report/html.h"

#include <algorithm>
#include <cstdio>
#include <variant>

namespace farcall::bench {
namespace {

constexpr int kWide = 860;
constexpr int kNarrow = 360;  // a phone

// The colours of a series are told apart by who does not see all of them, on white and on black.
constexpr char kStyle[] = R"(
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1d21;--soft:#5c6370;--rule:#d9dce2;
--good:#156f3a;--bad:#a8321c;--c0:#0063b1;--c1:#c44601;--c2:#6b7f94;--c3:#8a8a8a;--c4:#00806a;
--c5:#a3337f;--c6:#7a6200;--c7:#5b3fb5;--c8:#99254a;--c9:#7d5a8a;--c10:#d1495b;--c11:#444}
@media(prefers-color-scheme:dark){:root{--paper:#15171b;--ink:#e8eaee;--soft:#a0a7b4;--rule:#343944;
--good:#58c98a;--bad:#ff8d75;--c0:#5cb3ff;--c1:#ff8f4d;--c2:#8fa3b8;--c3:#b0b0b0;
--c4:#3fd0b4;--c5:#f08cd0;--c6:#dcc25a;--c7:#ab95ff;
--c8:#ff86a8;--c9:#c9a3e0;--c10:#ffb3c1;--c11:#ccc}}
:root{--p0:#6f9fd0;--p1:#f28e2b;--p2:#bab0ac;--p3:#76b7b2;--p4:#edc948;--p5:#7cc27a;--p6:#b990c4;
--p7:#f0787a;--p8:#b58d75;--p9:#ff9da7}
*{box-sizing:border-box}
body{margin:0 auto;max-width:920px;padding:24px 16px 48px;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1rem;font-weight:600;color:var(--soft);margin:0 0 4px}
h2{font-size:1.15rem;margin:40px 0 4px}
p{margin:4px 0 8px}
.answer{font-size:1.35rem;line-height:1.4;margin:0 0 12px}
.caption,.note{color:var(--soft);font-size:.9rem}
.warn{border-left:4px solid var(--bad);padding:2px 0 2px 12px}
svg{display:block;width:100%;height:auto;font:12px system-ui,sans-serif}
svg text{fill:var(--soft)}
.narrow{display:none}
.grid path{stroke:var(--rule);fill:none}
.line{fill:none;stroke:var(--c);stroke-width:2}
.event .line{stroke-dasharray:6 4}
.band{fill:var(--c);opacity:.12}
circle{fill:var(--c)}
.bar{fill:var(--c)}
.event .bar{fill-opacity:.55}
.part{fill:var(--c);stroke:var(--paper);stroke-width:.5}
svg .part+text{fill:#111}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;margin:6px 0 0;padding:0;list-style:none;
font-size:.85rem}
.legend li{display:flex;align-items:center;gap:6px}
.sample{width:26px;height:10px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;width:100%}
th,td{padding:5px 10px 5px 0;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
th{font-weight:600;color:var(--soft)}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
th.number{white-space:normal;vertical-align:bottom}
.name{white-space:nowrap}
.figures .name{position:sticky;left:0;background:var(--paper)}
.pass{color:var(--good);font-weight:600}
.short{color:var(--bad);font-weight:600}
dl{display:grid;grid-template-columns:minmax(8em,max-content) 1fr;gap:2px 16px;font-size:.85rem}
dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}
@media(max-width:560px){.wide{display:none}.narrow{display:block}body{font-size:15px}
.answer{font-size:1.1rem}dl{grid-template-columns:1fr}dd{margin-bottom:6px}
.targets th{display:none}
.targets tr{display:block;padding:6px 0;border-bottom:1px solid var(--rule)}
.targets td{display:inline;border:0;padding-right:8px}.targets td:nth-child(2){display:block}}
@media print{:root{--paper:#fff;--ink:#000;--soft:#444;--rule:#ccc;--good:#156f3a;--bad:#a8321c;
--c0:#0063b1;--c1:#c44601;--c2:#6b7f94;--c3:#8a8a8a;--c4:#00806a;--c5:#a3337f;--c6:#7a6200;
--c7:#5b3fb5;--c8:#99254a;--c9:#7d5a8a;--c10:#d1495b;--c11:#444}
body{max-width:none;padding:0;font-size:10pt}
.scroll{overflow:visible}.figures{font-size:7.5pt}
.figures th,.figures td{padding:3px 6px 3px 0}
section{break-inside:avoid}.long{break-inside:auto}
tr{break-inside:avoid}*{print-color-adjust:exact}}
)";

std::string Element(const char* name, const std::string& text, const char* classes = "") {
  std::string out = std::string("<") + name;
  if (*classes != '\0') out += std::string(" class='") + classes + "'";
  return out + ">" + Escape(text) + "</" + name + ">";
}

std::string Heading(const std::string& title, const std::string& caption) {
  return Element("h2", title) + Element("p", caption, "caption");
}

template <typename Chart>
std::string Pictures(const Chart& chart) {
  return "<div class='wide'>" + ToSvg(chart, kWide) + "</div><div class='narrow'>" +
         ToSvg(chart, kNarrow) + "</div>";
}

std::string Section(const LineChart& chart) {
  std::string out =
      "<section>" + Heading(chart.title, chart.caption) + Pictures(chart) + "<ul class='legend'>";
  for (const Series& series : chart.series) {
    out += "<li>" + SampleSvg(series.look) + Escape(series.name) + "</li>";
  }
  return out + "</ul></section>\n";
}

std::string Section(const BarChart& chart) {
  return "<section>" + Heading(chart.title, chart.caption) + Pictures(chart) + "</section>\n";
}

std::string Section(const std::vector<Verdict>& verdicts) {
  std::string rows;
  std::string unmeasured;
  for (const Verdict& verdict : verdicts) {
    if (!verdict.found) {
      unmeasured += (unmeasured.empty() ? "" : "; ") + verdict.what;
      continue;
    }
    rows +=
        "<tr>" + (verdict.pass ? Element("td", "pass", "pass") : Element("td", "short", "short")) +
        Element("td", verdict.what) + Element("td", ShortNumber(verdict.found->median), "number") +
        Element("td",
                "(" + ShortNumber(verdict.found->lowest) + " to " +
                    ShortNumber(verdict.found->highest) + ")",
                "number") +
        Element("td", verdict.must) + "</tr>";
  }
  if (rows.empty()) return "";
  return "<section class='long'>" +
         Heading("Targets",
                 "What this project holds itself to. A ratio is taken within rounds, only where "
                 "both ran with the cores as far apart; the median counts, behind it are the "
                 "lowest and the highest.") +
         "<div class='scroll'><table class='targets'><tr><th></th><th>what</th><th "
         "class='number'>found</th><th></th><th>must be</th></tr>" +
         rows + "</table></div>" +
         (unmeasured.empty()
              ? ""
              : Element("p", "Not measured in this run: " + unmeasured + ".", "note")) +
         "</section>\n";
}

std::string Figures(const CostTable& table) {
  std::string out = "<div class='scroll'><table class='figures'><tr><th></th>";
  for (const std::string& column : table.columns) out += Element("th", column, "number");
  out += "</tr>";
  for (const CostRow& row : table.rows) {
    out += "<tr>" + Element("td", row.name, "name");
    for (const std::optional<double>& value : row.values) {
      out += Element("td", value ? ShortNumber(*value) : "–", "number");
    }
    out += "</tr>";
  }
  return out + "</table></div>";
}

std::string Section(const CostTable& table) {
  return "<section>" + Heading(table.title, table.caption) + Figures(table) + "</section>\n";
}

std::string Section(const PartsChart& chart, const CostTable& figures) {
  std::string out =
      "<section>" + Heading(chart.title, chart.caption) + Pictures(chart) + "<ul class='legend'>";
  for (size_t i = 0; i < chart.parts.size(); ++i) {
    out += "<li>" + PartSampleSvg(static_cast<int>(i)) + Escape(chart.parts[i]) + "</li>";
  }
  return out + "</ul>" + Figures(figures) + "</section>\n";
}

std::string Section(const char* title, const Facts& facts) {
  if (facts.empty()) return "";
  std::string out = std::string("<section>") + Element("h2", title) + "<dl>";
  for (const auto& [name, value] : facts) {
    std::string shown = name;
    std::replace(shown.begin(), shown.end(), '_', ' ');
    const std::string* const text = std::get_if<std::string>(&value);
    out += Element("dt", shown) +
           Element("dd", text != nullptr ? *text : ShortNumber(std::get<double>(value)));
  }
  return out + "</dl></section>\n";
}

}  // namespace

std::string ToHtml(const ReportModel& model) {
  std::string out =
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
      "content='width=device-width,initial-scale=1'><title>What a Farcall call costs</title>"
      "<style>";
  out += kStyle;
  for (int i = 0; i < kColours; ++i) {
    out += ".c" + std::to_string(i) + "{--c:var(--c" + std::to_string(i) + ")}";
  }
  for (int i = 0; i < kPartColours; ++i) {
    out += ".p" + std::to_string(i) + "{--c:var(--p" + std::to_string(i) + ")}";
  }
  out += "</style></head><body>\n<h1>What a Farcall call costs on this machine</h1>\n";
  if (!model.headline.empty()) out += Element("p", model.headline, "answer");
  for (const std::string& warning : model.warnings) out += Element("p", warning, "warn");
  out += Element("p",
                 "Solid lines spin (busy), dashed ones sleep in the kernel (event). 'shm' is a "
                 "software NIC in shared memory: RDMA's protocol, no RDMA hardware.",
                 "note");
  for (const LineChart& chart : model.charts) out += Section(chart);
  for (const BarChart& chart : model.bars) out += Section(chart);
  out += Section(model.verdicts);
  for (size_t i = 0; i < model.stages.size(); ++i) {
    out += Section(model.stages[i], model.stage_tables[i]);
  }
  for (const CostTable& table : model.costs) out += Section(table);
  if (model.roce) out += Section(*model.roce);
  out += Section("Machine", model.machine);
  out += Section("Versions and peers", model.versions);
  out += Section("Settings", model.settings);
  return out + "</body></html>\n";
}

}  // namespace farcall::bench
