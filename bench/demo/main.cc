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

#include "farcall/bench/demo/farcall_subject.h"
#include "farcall/bench/demo/floor_subject.h"
#include "farcall/bench/demo/peer_subject.h"
#include "farcall/bench/demo/plan.h"
#include "farcall/bench/demo/rounds.h"
#include "farcall/bench/measure/child_process.h"
#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/cores.h"
#include "farcall/bench/measure/record.h"
#include "farcall/bench/measure/socket_options.h"
#include "farcall/bench/measure/table.h"

namespace farcall::bench {
namespace {

constexpr char kUsage[] =
    "usage: farcall_demo [--load] [--quick] [--no-peers] [--json FILE] [--help]\n"
    "Measures calls between two processes, interleaved with plain sockets (the floor), and prints "
    "a table\n"
    "of both. The last line is the short answer.\n"
    "  --load       small calls under load instead: many at once, on many connections, beside "
    "large\n"
    "               payloads and idle connections\n"
    "  --quick      about 40 s instead of about four minutes: fewer sizes and rounds\n"
    "  --no-peers   without the libraries of others\n"
    "  --json FILE  also write every record, one a case and round, to FILE\n";

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
  std::string json;  // empty: none
};

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
    } else if (argument == "--json" && i + 1 < argc) {
      arguments.json = argv[++i];
    } else {
      std::cerr << "farcall_demo: "
                << (argument == "--json" ? "--json needs a file" : "unknown argument ")
                << (argument == "--json" ? "" : argument) << '\n'
                << kUsage;
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

// One line that is rewritten on a terminal; elsewhere a line for every tenth of the run.
class ProgressLine {
 public:
  void operator()(int number, int total, const std::string& what) {
    const uint64_t now_ns = NowNs();
    if (number == 1) start_ns_ = now_ns;
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
void PrintWarnings(const Outcome& outcome, const Cores& cores, double load) {
  if (!cores.client)
    std::cout << "One core only: nothing is pinned, and busy modes starve each other.\n";
#ifndef __OPTIMIZE__
  std::cout << "Built without optimisation: the figures mean nothing. Use the release preset.\n";
#endif
  if (load > kQuietLoad) {
    std::cout << "The load average was " << FormatLoad(load)
              << " before the run: other processes were busy, and the figures are worth less.\n";
  }
  if (outcome.dropped > 0) {
    std::cout << "Left out, as the cores moved during each attempt: " << outcome.dropped
              << " measurement(s).\n";
  }
  for (const std::string& line : outcome.wrong_replies) std::cout << "WRONG: " << line << '\n';
}

// Idle connections are descriptors, here and in the server that inherits the limit.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Demo(const Arguments& arguments) {
  std::ofstream json;
  if (!arguments.json.empty()) {
    json.open(arguments.json);  // before the work, so that a bad name costs no minutes
    if (!json) {
      std::cerr << "farcall_demo: cannot write " << arguments.json << '\n';
      return EXIT_FAILURE;
    }
  }
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
  if (arguments.peers) peers = FindPeers(FolderOfThisProgram(), cores.server);
  Report report{.machine = DescribeMachine(),
                .versions = DescribeVersions(peers),
                .settings = DescribeSettings(arguments, plan, cores, load),
                .records = {}};
  PrintSettings(report, load);
  for (const std::string& line : peers.left_out) std::cout << line << '\n';

  ProgressLine progress;
  Outcome outcome = RunRounds(plan, MakeSubjects(std::move(peers.subjects)), cores, ProbeOf(cores),
                              std::ref(progress));
  progress.Clear();
  report.records = std::move(outcome.records);
  report.settings.emplace_back("dropped_measurements", static_cast<double>(outcome.dropped));
  if (!report.records.empty()) {
    std::cout << FormatTable(report.records) << kRowNames;
  }
  PrintWarnings(outcome, cores, load);
  std::cout << FormatHeadline(report.records);
  if (json.is_open()) {
    json << ToJson(report) << std::flush;
    if (!json) std::cerr << "farcall_demo: cannot write " << arguments.json << '\n';
  }
  if (!outcome.status.ok()) {
    std::cerr << "farcall_demo: stopped: " << outcome.status.message() << '\n';
  }
  const bool good =
      outcome.status.ok() && outcome.wrong_replies.empty() && (!json.is_open() || json);
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
