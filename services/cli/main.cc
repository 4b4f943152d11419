// farcall doctor [ADDRESS] [--json]
//
// Says what this machine has for RDMA and what it lacks, each with its remedy; with an address,
// tries it. Exit status: 0 nothing stands in the way; 1 something does, of rdma:// or of ADDRESS; 2
// it was called wrongly.

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "farcall/rpc/endpoint.h"
#include "farcall/services/cli/gather.h"
#include "farcall/services/cli/report.h"
#include "farcall/transports/dial.h"
#include "farcall/transports/rdma/verbs/survey.h"

namespace farcall::cli {
namespace {

constexpr char kUsage[] =
    "usage: farcall doctor [ADDRESS] [--json]\n"
    "\n"
    "Says what this machine has for RDMA and what it lacks, each with its remedy.\n"
    "ADDRESS (tcp://host:port, rdma://host:port, shm://name, auto://host:port, unix:///path) is "
    "tried: connect,\nHELLO, PING, and 4 KiB and 1 MiB there and back.\n"
    "\n"
    "exit status: 0 nothing stands in the way; 1 something does, of rdma:// or of ADDRESS;\n"
    "             2 called wrongly\n";

constexpr Duration kStep = std::chrono::seconds(5);

struct Arguments {
  std::string address;
  bool json = false;
};

bool Parse(int argc, char** argv, Arguments& arguments) {
  if (argc < 2 || std::string_view(argv[1]) != "doctor") return false;
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--json") {
      arguments.json = true;
    } else if (!word.starts_with("-") && arguments.address.empty()) {
      arguments.address = word;
    } else {
      return false;
    }
  }
  return true;
}

int Doctor(const Arguments& arguments) {
  Report report;
  Endpoint endpoint;
  if (!arguments.address.empty()) {
    absl::StatusOr<Endpoint> parsed = ParseEndpoint(arguments.address);
    if (parsed.ok()) {
      // In this process nobody listens.
      if (parsed->scheme == "loopback") {
        parsed = absl::InvalidArgumentError("loopback:// is within one process");
      } else if (absl::Status served = TransportFor(*parsed).status(); !served.ok()) {
        parsed = served;
      }
    }
    if (!parsed.ok()) {
      std::fprintf(stderr, "farcall doctor: %s\n", std::string(parsed.status().message()).c_str());
      return 2;
    }
    endpoint = *std::move(parsed);
    report.address = endpoint.ToString();
  }
  report.facts = Gather();
  if (!endpoint.host.empty()) {
    report.facts.source_address = verbs::SourceAddress(endpoint.host).value_or("");
  }
  report.findings = Judge(report.facts, endpoint.scheme);
  if (!report.address.empty()) report.steps = Probe(endpoint, kStep);
  std::fputs((arguments.json ? AsJson(report) : AsText(report)).c_str(), stdout);
  return AllWell(report) ? 0 : 1;
}

int Main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  const std::string_view last = argc > 1 ? argv[argc - 1] : "";
  if (first == "--help" || last == "--help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  return Doctor(arguments);
}

}  // namespace
}  // namespace farcall::cli

int main(int argc, char** argv) { return farcall::cli::Main(argc, argv); }
