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

#include "farcall/bench/demo/costs.h"
#include "farcall/bench/demo/farcall_subject.h"
#include "farcall/bench/demo/floor_subject.h"
#include "farcall/bench/demo/peer_subject.h"
#include "farcall/bench/demo/plan.h"
#include "farcall/bench/demo/rounds.h"
#include "farcall/bench/demo/stages.h"
#include "farcall/bench/measure/child_process.h"
#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/cores.h"
#include "farcall/bench/measure/record.h"
#include "farcall/bench/measure/socket_options.h"
#include "farcall/bench/measure/table.h"
#include "farcall/bench/report/estimate.h"
#include "farcall/bench/report/html.h"
#include "farcall/bench/report/model.h"
#include "farcall/bench/report/targets.h"

namespace farcall::bench {
namespace {

constexpr char kUsage[] =
    "usage: farcall_demo [--load] [--quick] [--no-peers] [--json FILE] [--csv FILE]\n"
    "                    [--html FILE] [--help]\n"
    "Measures calls between two processes, interleaved with plain sockets (the floor), and prints "
    "a table\n"
    "of both. The last line is the short answer.\n"
    "  --load       small calls under load instead: many at once, on many connections, beside "
    "large\n"
    "               payloads and idle connections\n"
    "  --quick      about 80 s instead of about eight minutes: fewer sizes and rounds\n"
    "  --no-peers   without the libraries of others: half as long\n"
    "  --json FILE  also write every record, one a case and round, to FILE\n"
    "  --csv FILE   the same as a table of values\n"
    "  --html FILE  also write a page with charts to FILE, which needs nothing else\n";

constexpr char kRowNames[] =
    "floor/tcp: plain sockets, no RPC · tcp: Farcall over TCP, another process · floor/shm: a "
    "cache "
    "line and a\nmemcpy between two processes, spinning · shm: Farcall over a software NIC in "
    "shared "
    "memory, not RDMA\nhardware · loopback: Farcall with no wire, another thread of this process; "
    "what it costs beside the transport\n"
    "peer/…: libraries of others, each an echo of the same bytes in two processes\n";

// A minute's load average above this comes from somebody who would also run beside the
// measurements.
constexpr double kQuietLoad = 0.3;

// Flags for programs that read the file; who reads the screen is warned where they matter.
constexpr std::array<std::string_view, 5> kOnlyInJson = {"virtual_machine", "optimised", "quick",
                                                         "tcp_nodelay", "load_average_before"};

struct Arguments {
  bool help = false;
  bool load = false;
  bool quick = false;
  bool peers = true;
  // Empty: none.
  std::string json;
  std::string csv;
  std::string html;
};

// The file that an argument names; nullptr: it names none.
std::string* FileOf(std::string_view argument, Arguments& arguments) {
  if (argument == "--json") return &arguments.json;
  if (argument == "--csv") return &arguments.csv;
  if (argument == "--html") return &arguments.html;
  return nullptr;
}

// nullopt, with the reason on standard error, when they make no sense.
std::optional<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help") {
      arguments.help = true;
    } else if (argument == "--load") {
      arguments.load = true;
    } else if (argument == "--quick") {
      arguments.quick = true;
    } else if (argument == "--no-peers") {
      arguments.peers = false;
    } else if (std::string* const file = FileOf(argument, arguments); file && i + 1 < argc) {
      *file = argv[++i];
    } else {
      std::cerr << "farcall_demo: ";
      if (file != nullptr) {
        std::cerr << argument << " needs a file\n";
      } else {
        std::cerr << "unknown argument " << argument << '\n';
      }
      std::cerr << kUsage;
      return std::nullopt;
    }
  }
  return arguments;
}

// Each beside its floor, so that both meet the same mood of the machine; and `peers`.
std::vector<std::unique_ptr<Subject>> MakeSubjects(std::vector<std::unique_ptr<Subject>> peers) {
  const std::string floor_server = FolderOfThisProgram() + "/farcall_floor_server";
  const std::string echo_server = FolderOfThisProgram() + "/farcall_echo_server";
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const Mode mode : {Mode::kEvent, Mode::kBusy}) {
    subjects.push_back(std::make_unique<TcpFloorSubject>(floor_server, mode));
    for (const auto scheme : {ProcessSubject::Scheme::kTcp, ProcessSubject::Scheme::kShm}) {
      subjects.push_back(std::make_unique<ProcessSubject>(echo_server, scheme, mode));
    }
  }
  subjects.push_back(std::make_unique<ShmFloorSubject>(floor_server));
  subjects.push_back(std::make_unique<LoopbackSubject>(Mode::kEvent));
  std::move(peers.begin(), peers.end(), std::back_inserter(subjects));
  return subjects;
}

// Shared memory with all payloads forced to be eager, and with none of them.
std::vector<std::unique_ptr<Subject>> MakeForcedSubjects() {
  const std::string echo_server = FolderOfThisProgram() + "/farcall_echo_server";
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const uint32_t threshold : {uint32_t{128} << 10, uint32_t{0}}) {
    subjects.push_back(std::make_unique<ProcessSubject>(echo_server, ProcessSubject::Scheme::kShm,
                                                        Mode::kBusy, threshold));
  }
  return subjects;
}

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

Facts DescribeVersions(const PeersHere& peers) {
  Facts versions = DescribeToolchain();
  versions.emplace(versions.begin(), "farcall", std::string(FARCALL_VERSION));
  versions.insert(versions.end(), peers.about.begin(), peers.about.end());
  return versions;
}

Facts DescribeSettings(const Arguments& arguments, const Plan& plan, const Cores& cores,
                       double load) {
  const Workload& any = plan.workloads.front();
  Facts settings = {
      {"quick", arguments.quick ? 1.0 : 0.0},
      {"rounds", static_cast<double>(plan.rounds)},
      {"seconds_per_measurement", std::chrono::duration<double>(any.duration).count()},
      {"warm_up_seconds", std::chrono::duration<double>(any.warm_up).count()},
      {"congestion_control",
       std::string(kCongestionControl) + ", by TCP_CONGESTION on own sockets"},
      {"tcp_nodelay", 1.0},
      {"load_average_before", load}};
  if (!arguments.load) settings.emplace_back("costs_counted", HowCostsAreCounted());
  if (cores.client && cores.server) {
    settings.emplace_back("client_core", static_cast<double>(*cores.client));
    settings.emplace_back("server_core", static_cast<double>(*cores.server));
  }
  return settings;
}

std::string FormatLoad(double load) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", load);
  return text;
}

void PrintSettings(const Report& report, double load) {
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
  std::cout << "load average before the run " << FormatLoad(load)
            << (load > kQuietLoad ? ": other processes are busy" : "") << "\n\n";
}

// What a reader must know before believing the table.
std::vector<std::string> WarningsOf(const Outcome& outcome, const Cores& cores, double load) {
  std::vector<std::string> warnings;
  if (!cores.client) {
    warnings.emplace_back("One core only: nothing is pinned, and busy modes starve each other.");
  }
#ifndef __OPTIMIZE__
  warnings.emplace_back(
      "Built without optimisation: the figures mean nothing. Use the release preset.");
#endif
  if (load > kQuietLoad) {
    warnings.push_back("The load average was " + FormatLoad(load) +
                       " before the run: other processes were busy, and the figures are worth "
                       "less.");
  }
  if (outcome.dropped > 0) {
    warnings.push_back("Left out, as the cores moved during each attempt: " +
                       std::to_string(outcome.dropped) + " measurement(s).");
  }
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
Outcome Measure(const Arguments& arguments, const Plan& plan,
                const std::vector<std::unique_ptr<Subject>>& subjects, const Cores& cores) {
  ProgressLine progress;
  Outcome outcome = RunRounds(plan, subjects, cores, ProbeOf(cores), std::ref(progress));
  if (!arguments.load && outcome.status.ok()) {
    outcome.status = CountCosts(subjects, cores, std::ref(progress), outcome.records);
  }
  if (!arguments.load && outcome.status.ok()) {
    outcome.Append(RunRounds(CrossoverPlan(arguments.quick), MakeForcedSubjects(), cores,
                             ProbeOf(cores), std::ref(progress)));
  }
  if (!arguments.load && outcome.status.ok()) {
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
    report.settings.emplace_back("target: " + verdict.what, ToText(verdict));
  }
}

int Demo(const Arguments& arguments) {
  OutputFile json(arguments.json), csv(arguments.csv), html(arguments.html);
  if (!json.good() || !csv.good() || !html.good()) return EXIT_FAILURE;
  RaiseDescriptorLimit();
  double load = 0;
  getloadavg(&load, 1);
  const Plan plan = arguments.load    ? LoadPlan(arguments.quick)
                    : arguments.quick ? QuickPlan()
                                      : FullPlan();
  const Cores cores = ChooseCores();
  if (cores.client) {
    const absl::Status pinned = PinThisThread(*cores.client);
    if (!pinned.ok()) {
      std::cerr << "farcall_demo: " << pinned << '\n';
      return EXIT_FAILURE;
    }
  }
  PeersHere peers;
  if (arguments.peers && !arguments.load) peers = FindPeers(FolderOfThisProgram(), cores.server);
  Report report{.machine = DescribeMachine(),
                .versions = DescribeVersions(peers),
                .settings = DescribeSettings(arguments, plan, cores, load),
                .records = {}};
  PrintSettings(report, load);
  for (const std::string& line : peers.left_out) std::cout << line << '\n';

  Outcome outcome = Measure(arguments, plan, MakeSubjects(std::move(peers.subjects)), cores);
  report.records = std::move(outcome.records);
  report.settings.emplace_back("dropped_measurements", static_cast<double>(outcome.dropped));
  const std::vector<std::string> warnings = WarningsOf(outcome, cores, load);
  const ReportModel model = MakeModel(report, warnings);
  AddWhatFollows(model, report);
  if (!report.records.empty()) {
    std::cout << FormatTable(report.records) << kRowNames << FormatVerdicts(model.verdicts);
  }
  for (const std::string& warning : warnings) std::cout << warning << '\n';
  std::cout << FormatHeadline(report.records);
  bool written = json.Write(ToJson(report));
  written = csv.Write(ToCsv(report.records)) && written;
  written = html.Write(ToHtml(model)) && written;
  if (!outcome.status.ok()) {
    std::cerr << "farcall_demo: stopped: " << outcome.status.message() << '\n';
  }
  const bool good = outcome.status.ok() && outcome.wrong_replies.empty() && written;
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace farcall::bench

int main(int argc, char** argv) {
  const std::optional<farcall::bench::Arguments> arguments = farcall::bench::Parse(argc, argv);
  if (!arguments) return 2;
  if (arguments->help) {
    std::fputs(farcall::bench::kUsage, stdout);
    return EXIT_SUCCESS;
  }
  return farcall::bench::Demo(*arguments);
}
