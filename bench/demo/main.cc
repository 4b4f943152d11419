// farcall_demo: what a call costs on this machine, beside what plain sockets cost.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "farcall/bench/demo/arguments.h"
#include "farcall/bench/demo/costs.h"
#include "farcall/bench/demo/lineup.h"
#include "farcall/bench/demo/plan.h"
#include "farcall/bench/demo/rounds.h"
#include "farcall/bench/demo/stages.h"
#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/cores.h"
#include "farcall/bench/measure/read_report.h"
#include "farcall/bench/measure/record.h"
#include "farcall/bench/measure/socket_options.h"
#include "farcall/bench/measure/table.h"
#include "farcall/bench/report/estimate.h"
#include "farcall/bench/report/html.h"
#include "farcall/bench/report/model.h"
#include "farcall/bench/report/targets.h"

namespace farcall::bench {
namespace {

constexpr char kRowNames[] =
    "floor/tcp: plain sockets, no RPC · tcp: Farcall over TCP, another process · floor/shm: a "
    "cache "
    "line and a\nmemcpy between two processes, spinning · shm: Farcall over a software NIC in "
    "shared "
    "memory, not RDMA\nhardware · loopback: Farcall with no wire, another thread of this process; "
    "what it costs beside the transport\n"
    "peer/…: libraries of others, each an echo of the same bytes in two processes\n";

// Settings that warnings are made of.
constexpr char kLoadBefore[] = "load_average_before";
constexpr char kDropped[] = "dropped_measurements";
// What the name of a setting begins with that is a target's verdict.
constexpr std::string_view kTarget = "target: ";

// A minute's load average above this comes from somebody who would also run beside the
// measurements.
constexpr double kQuietLoad = 0.3;

// Flags for programs that read the file; who reads the screen is warned where they matter.
constexpr std::array<std::string_view, 5> kOnlyInJson = {"virtual_machine", "optimised", "quick",
                                                         "tcp_nodelay", kLoadBefore};

// One line that is rewritten on a terminal; elsewhere a line for every tenth of the run.
class ProgressLine {
 public:
  void operator()(int number, int total, const std::string& what) {
    const uint64_t now_ns = NowNs();
    if (number == 1) start_ns_ = now_ns;  // of each pass
    if (!terminal_ && (number - 1) % std::max(1, total / 10) != 0) return;
    const double done = number - 1;
    const double left_s =
        number == 1 ? 0 : static_cast<double>(now_ns - start_ns_) / 1e9 / done * (total - done);
    std::fprintf(stderr, "%s%d of %d: %s", terminal_ ? "\r\033[K" : "", number, total,
                 what.c_str());
    if (number > 1) std::fprintf(stderr, " (%.0f s left)", left_s);
    if (!terminal_) std::fputc('\n', stderr);
  }
  void Clear() const {
    if (terminal_) std::fputs("\r\033[K", stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  uint64_t start_ns_ = 0;
};

// Whether both sides are here and calls are made one at a time.
bool CountsCosts(const Arguments& arguments) {
  return !arguments.load && arguments.connect.empty();
}

// Whether there is more to tell of a run than its rounds and costs.
bool TellsMore(const Arguments& arguments) {
  return CountsCosts(arguments) && arguments.adapter.empty();
}

Facts DescribeVersions(const Lineup& lineup) {
  Facts versions = DescribeToolchain();
  versions.emplace(versions.begin(), "farcall", std::string(FARCALL_VERSION));
  versions.insert(versions.end(), lineup.about.begin(), lineup.about.end());
  return versions;
}

Facts DescribeSettings(const Arguments& arguments, const Lineup& lineup, const Cores& cores,
                       double load) {
  const Workload& any = lineup.plan.workloads.front();
  Facts settings = {
      {"quick", arguments.quick ? 1.0 : 0.0},
      {"rounds", static_cast<double>(lineup.plan.rounds)},
      {"seconds_per_measurement", std::chrono::duration<double>(any.duration).count()},
      {"warm_up_seconds", std::chrono::duration<double>(any.warm_up).count()},
      {"congestion_control",
       std::string(kCongestionControl) + ", by TCP_CONGESTION on own sockets"},
      {"tcp_nodelay", 1.0},
      {kLoadBefore, load}};
  if (CountsCosts(arguments)) {
    settings.emplace_back("costs_counted",
                          arguments.adapter.empty() ? HowCostsAreCounted() : "by the connections");
  }
  if (cores.client && cores.server) {
    settings.emplace_back("client_core", static_cast<double>(*cores.client));
    settings.emplace_back("server_core", static_cast<double>(*cores.server));
  }
  settings.insert(settings.end(), lineup.settings.begin(), lineup.settings.end());
  return settings;
}

// Of this machine; of one that is emulated that of its host, which FARCALL_HOST_LOAD says.
double LoadAverage() {
  double load = 0;
  if (const char* const of_host = std::getenv("FARCALL_HOST_LOAD")) {
    load = std::strtod(of_host, nullptr);
  } else {
    getloadavg(&load, 1);
  }
  return load;
}

// 0 when there is none.
double NumberOf(const Facts& facts, std::string_view name) {
  for (const auto& [known, value] : facts) {
    const double* const number = std::get_if<double>(&value);
    if (known == name && number != nullptr) return *number;
  }
  return 0;
}

std::string FormatLoad(double load) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", load);
  return text;
}

void PrintSettings(const Report& report) {
  for (const Facts* facts : {&report.machine, &report.versions, &report.settings}) {
    const char* separator = "";
    for (const auto& [name, value] : *facts) {
      if (std::find(kOnlyInJson.begin(), kOnlyInJson.end(), name) != kOnlyInJson.end()) continue;
      std::cout << separator << name << ' ';
      std::visit([](const auto& known) { std::cout << known; }, value);
      separator = " · ";
    }
    std::cout << '\n';
  }
  const double load = NumberOf(report.settings, kLoadBefore);
  std::cout << "load average before the run " << FormatLoad(load)
            << (load > kQuietLoad ? ": other processes are busy" : "") << "\n\n";
}

// What a reader must know before believing the table.
std::vector<std::string> WarningsOf(const Report& report) {
  std::vector<std::string> warnings;
  const double load = NumberOf(report.settings, kLoadBefore);
  if (load > kQuietLoad) {
    warnings.push_back("The load average was " + FormatLoad(load) +
                       " before the run: other processes were busy, and the figures are worth "
                       "less.");
  }
  const double dropped = NumberOf(report.settings, kDropped);
  if (dropped > 0) {
    warnings.push_back("Left out, as the cores moved during each attempt: " + ShortNumber(dropped) +
                       " measurement(s).");
  }
  return warnings;
}

// And before believing those of this run.
std::vector<std::string> WarningsOf(const Outcome& outcome, const Cores& cores) {
  std::vector<std::string> warnings;
  if (!cores.client) {
    warnings.emplace_back("One core only: nothing is pinned, and busy modes starve each other.");
  }
#ifndef __OPTIMIZE__
  warnings.emplace_back(
      "Built without optimisation: the figures mean nothing. Use the release preset.");
#endif
  for (const std::string& line : outcome.wrong_replies) warnings.push_back("WRONG: " + line);
  return warnings;
}

// A file that is opened before the work, so that a bad name costs no minutes.
class OutputFile {
 public:
  // Empty: none.
  explicit OutputFile(const std::string& name) : name_(name) {
    if (!name_.empty()) file_.open(name_);
  }

  bool wanted() const { return !name_.empty(); }
  // Says so when it is not.
  bool good() const {
    if (!wanted() || file_) return true;
    std::cerr << "farcall_demo: cannot write " << name_ << '\n';
    return false;
  }
  bool Write(const std::string& text) {
    if (wanted()) file_ << text << std::flush;
    return good();
  }

 private:
  const std::string name_;
  std::ofstream file_;
};

// Idle connections are descriptors, here and in the server that inherits the limit.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// The rounds, and then what is told of calls beside their times.
Outcome Measure(const Arguments& arguments, const Lineup& lineup, const Cores& cores) {
  ProgressLine progress;
  Outcome outcome =
      RunRounds(lineup.plan, lineup.subjects, cores, lineup.probe, std::ref(progress));
  if (CountsCosts(arguments) && outcome.status.ok()) {
    outcome.status = CountCosts(lineup.subjects, cores, std::ref(progress), outcome.records,
                                arguments.adapter.empty());
  }
  if (TellsMore(arguments) && outcome.status.ok()) {
    outcome.Append(RunRounds(CrossoverPlan(arguments.quick), MakeForcedSubjects(), cores,
                             lineup.probe, std::ref(progress)));
  }
  if (TellsMore(arguments) && outcome.status.ok()) {
    outcome.Append(MeasureStages(cores, std::ref(progress)));
  }
  progress.Clear();
  return outcome;
}

// For programs that read the file: what the page works out.
void AddWhatFollows(const ReportModel& model, Report& report) {
  for (Record& estimate : RoceRecords(EstimateRoce(report.records))) {
    report.records.push_back(std::move(estimate));
  }
  for (const Verdict& verdict : model.verdicts) {
    if (!verdict.found) continue;
    report.settings.emplace_back(std::string(kTarget) + verdict.what, ToText(verdict));
  }
}

// Of a report that was read, so that it can be worked out anew.
void RemoveWhatFollows(Report& report) {
  std::erase_if(report.records, [](const Record& record) { return record.estimate.has_value(); });
  std::erase_if(report.settings, [](const auto& fact) { return fact.first.starts_with(kTarget); });
}

// Where a report goes.
struct Outputs {
  explicit Outputs(const Arguments& arguments)
      : json(arguments.json), csv(arguments.csv), html(arguments.html) {}

  bool good() const { return json.good() && csv.good() && html.good(); }
  // Prints the report and writes its files; false when one cannot be written.
  bool Take(Report report, std::vector<std::string> warnings) {
    for (std::string& warning : WarningsOf(report)) warnings.push_back(std::move(warning));
    const ReportModel model = MakeModel(report, warnings);
    AddWhatFollows(model, report);
    if (!report.records.empty()) {
      std::cout << FormatTable(report.records) << kRowNames << FormatVerdicts(model.verdicts);
    }
    for (const std::string& warning : model.warnings) std::cout << warning << '\n';
    std::cout << FormatHeadline(report.records);
    bool written = json.Write(ToJson(report));
    written = csv.Write(ToCsv(report.records)) && written;
    return html.Write(ToHtml(model)) && written;
  }

  OutputFile json, csv, html;
};

int MeasureAndTell(const Arguments& arguments, Outputs& outputs) {
  RaiseDescriptorLimit();
  const double load = LoadAverage();
  const Cores cores = ChooseCores();
  if (cores.client) {
    const absl::Status pinned = PinThisThread(*cores.client);
    if (!pinned.ok()) {
      std::cerr << "farcall_demo: " << pinned << '\n';
      return EXIT_FAILURE;
    }
  }
  absl::StatusOr<Lineup> lineup = MakeLineup(arguments, cores);
  if (!lineup.ok()) {
    std::cerr << "farcall_demo: " << lineup.status().message() << '\n';
    return EXIT_FAILURE;
  }
  if (arguments.rounds > 0) lineup->plan.rounds = arguments.rounds;
  Report report{.machine = DescribeMachine(),
                .versions = DescribeVersions(*lineup),
                .settings = DescribeSettings(arguments, *lineup, cores, load),
                .records = {}};
  PrintSettings(report);
  for (const std::string& line : lineup->left_out) std::cout << line << '\n';

  Outcome outcome = Measure(arguments, *lineup, cores);
  report.records = std::move(outcome.records);
  report.settings.emplace_back(kDropped, static_cast<double>(outcome.dropped));
  std::vector<std::string> warnings = WarningsOf(outcome, cores);
  if (!arguments.adapter.empty() || !arguments.connect.empty()) {
    warnings.insert(warnings.end(), lineup->left_out.begin(), lineup->left_out.end());
  }
  const bool written = outputs.Take(std::move(report), std::move(warnings));
  if (!outcome.status.ok()) {
    std::cerr << "farcall_demo: stopped: " << outcome.status.message() << '\n';
  }
  const bool good = outcome.status.ok() && outcome.wrong_replies.empty() && written;
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

// One report of several: what each says first counts.
absl::StatusOr<Report> ReadAll(const std::vector<std::string>& names) {
  Report all;
  for (const std::string& name : names) {
    std::ifstream file(name);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file) return absl::NotFoundError("cannot read " + name);
    const absl::StatusOr<Report> report = ReadReport(text);
    if (!report.ok()) {
      return absl::InvalidArgumentError(name + ": " + std::string(report.status().message()));
    }
    AddReport(*report, all);
  }
  return all;
}

int ReadAgain(const Arguments& arguments, Outputs& outputs) {
  absl::StatusOr<Report> report = ReadAll(arguments.read);
  if (!report.ok()) {
    std::cerr << "farcall_demo: " << report.status().message() << '\n';
    return EXIT_FAILURE;
  }
  RemoveWhatFollows(*report);
  PrintSettings(*report);
  return outputs.Take(*std::move(report), {}) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int Demo(const Arguments& arguments) {
  Outputs outputs(arguments);
  if (!outputs.good()) return EXIT_FAILURE;
  return arguments.read.empty() ? MeasureAndTell(arguments, outputs)
                                : ReadAgain(arguments, outputs);
}

}  // namespace
}  // namespace farcall::bench

int main(int argc, char** argv) {
  const std::optional<farcall::bench::Arguments> arguments =
      farcall::bench::ParseArguments(argc, argv);
  if (!arguments) return 2;
  if (arguments->help) {
    std::fputs(farcall::bench::kUsage, stdout);
    return EXIT_SUCCESS;
  }
  return farcall::bench::Demo(*arguments);
}
