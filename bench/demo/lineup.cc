#include "farcall/bench/demo/lineup.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/bench/demo/farcall_subject.h"
#include "farcall/bench/demo/floor_subject.h"
#include "farcall/bench/demo/peer_subject.h"
#include "farcall/bench/demo/perftest.h"
#include "farcall/bench/demo/perftest_subject.h"
#include "farcall/bench/demo/remote.h"
#include "farcall/bench/measure/child_process.h"
#include "farcall/transports/rdma/rdma.h"
#include "farcall/transports/rdma/verbs/verbs.h"

namespace farcall::bench {
namespace {

constexpr Mode kModes[] = {Mode::kEvent, Mode::kBusy};

std::string Sibling(const char* program) { return FolderOfThisProgram() + "/" + program; }

// A call or two: whether there is anybody.
Workload FirstCall() {
  return {.duration = std::chrono::milliseconds(1), .warm_up = std::chrono::milliseconds(1)};
}

// ---- one host, no adapter ----

// Each beside its floor, so that both meet the same mood of the machine; and the peers.
absl::StatusOr<Lineup> OneHost(const Arguments& arguments, const Cores& cores) {
  Lineup lineup{.plan = arguments.load    ? LoadPlan(arguments.quick)
                        : arguments.quick ? QuickPlan()
                                          : FullPlan(),
                .subjects = {},
                .probe = ProbeOf(cores),
                .about = {},
                .settings = {},
                .left_out = {}};
  const std::string floor_server = Sibling("farcall_floor_server");
  const std::string echo_server = Sibling("farcall_echo_server");
  for (const Mode mode : kModes) {
    lineup.subjects.push_back(std::make_unique<TcpFloorSubject>(floor_server, mode));
    for (const auto scheme : {Scheme::kTcp, Scheme::kShm}) {
      lineup.subjects.push_back(std::make_unique<ProcessSubject>(echo_server, scheme, mode));
    }
  }
  lineup.subjects.push_back(std::make_unique<ShmFloorSubject>(floor_server));
  lineup.subjects.push_back(std::make_unique<LoopbackSubject>(Mode::kEvent));
  if (!arguments.peers || arguments.load) return lineup;
  PeersHere peers = FindPeers(FolderOfThisProgram(), cores.server);
  std::move(peers.subjects.begin(), peers.subjects.end(), std::back_inserter(lineup.subjects));
  lineup.about = std::move(peers.about);
  lineup.left_out = std::move(peers.left_out);
  return lineup;
}

// ---- one host, over its adapter ----

// What the plan needs to know of our calls and of the adapter.
absl::StatusOr<VerbsSizes> SizesOver(const std::string& host) {
  const absl::StatusOr<ChildProcess> server = ChildProcess::Start(
      {.command = {Sibling("farcall_echo_server"), absl::StrCat("rdma://", host, ":0"), "--quiet"},
       .core = {},
       .ready_prefix = "listening on "});
  if (!server.ok()) return server.status();
  const absl::StatusOr<size_t> wire_bytes = WireBytesOf(server->ready_line(), 32);
  if (!wire_bytes.ok()) return wire_bytes.status();
  const absl::StatusOr<std::shared_ptr<rdma::Device>> device = verbs::MakeVerbsDevice({});
  if (!device.ok()) return device.status();
  const rdma::Capabilities& can = (*device)->capabilities();
  const RdmaOptions ours;
  return VerbsSizes{
      .wire_bytes = *wire_bytes,
      .chunk_bytes = static_cast<size_t>(std::min<uint64_t>(ours.chunk_bytes, can.max_read_bytes)),
      .read_depth = static_cast<int>(
          std::min({ours.read_depth, can.max_initiator_depth, can.max_responder_resources}))};
}

// The cores of an emulated machine are threads of another: their distance says nothing.
absl::StatusOr<Lineup> OverAdapter(const Arguments& arguments, const Cores& cores) {
  const absl::StatusOr<VerbsSizes> sizes = SizesOver(arguments.adapter_host);
  if (!sizes.ok()) return sizes.status();
  Lineup lineup{.plan = VerbsPlan(arguments.quick, *sizes),
                .subjects = {},
                .probe = ProbeOf({}),
                .about = {},
                .settings = {{absl::StrCat(arguments.adapter, "_wire_bytes_of_a_small_call"),
                              static_cast<double>(sizes->wire_bytes)},
                             {absl::StrCat(arguments.adapter, "_read_chunk_bytes"),
                              static_cast<double>(sizes->chunk_bytes)},
                             {absl::StrCat(arguments.adapter, "_reads_under_way"),
                              static_cast<double>(sizes->read_depth)}},
                .left_out = {}};
  lineup.plan.first_round = arguments.first_round;
  auto perftest = std::make_unique<PerftestSubject>(arguments.adapter);
  for (const Workload& workload : lineup.plan.workloads) {
    if (!IsOfVerbs(workload.kind)) continue;
    const absl::Status once = perftest->Run(workload, cores.server).status();
    if (once.ok()) continue;
    perftest->LeaveOut(workload.kind);
    lineup.left_out.push_back(absl::StrCat(PerftestCommand(workload).front(), " on ",
                                           arguments.adapter, " is left out: ", once.message()));
  }
  lineup.subjects.push_back(std::move(perftest));
  const std::string server = Sibling("farcall_echo_server");
  for (const Mode mode : {Mode::kBusy, Mode::kEvent}) {
    lineup.subjects.push_back(
        std::make_unique<ProcessSubject>(server, arguments.adapter, arguments.adapter_host, mode));
  }
  for (const Mode mode : {Mode::kBusy, Mode::kEvent}) {
    lineup.subjects.push_back(std::make_unique<ProcessSubject>(server, Scheme::kTcp, mode));
  }
  return lineup;
}

// ---- two hosts ----

absl::StatusOr<Lineup> TwoHosts(const Arguments& arguments) {
  Lineup lineup{.plan = arguments.quick ? QuickPlan() : FullPlan(),
                .subjects = {},
                .probe = ProbeOf({}),
                .about = {},
                .settings = {{"server", arguments.connect}},
                .left_out = {}};
  for (const Mode mode : kModes) {
    for (const auto scheme : {Scheme::kRdma, Scheme::kTcp}) {
      const std::string address = RemoteAddress(scheme, arguments.connect, mode);
      auto subject = std::make_unique<RemoteSubject>(
          address, scheme, scheme == Scheme::kTcp ? "kernel" : "adapter", mode);
      const absl::Status once = subject->Run(FirstCall(), {}).status();
      if (once.ok()) {
        lineup.subjects.push_back(std::move(subject));
      } else {
        lineup.left_out.push_back(
            absl::StrCat(TransportOf(scheme), " ", NameOf(mode), " is left out: ", once.message()));
      }
    }
  }
  if (!lineup.subjects.empty()) return lineup;
  std::string why =
      absl::StrCat("nothing answers on ", arguments.connect,
                   "; start 'sh bench/demo.sh --server' there, and look at firewalls");
  for (const std::string& line : lineup.left_out) absl::StrAppend(&why, "\n  ", line);
  return absl::UnavailableError(why);
}

}  // namespace

absl::StatusOr<Lineup> MakeLineup(const Arguments& arguments, const Cores& cores) {
  if (!arguments.adapter.empty()) return OverAdapter(arguments, cores);
  if (!arguments.connect.empty()) return TwoHosts(arguments);
  return OneHost(arguments, cores);
}

std::vector<std::unique_ptr<Subject>> MakeForcedSubjects() {
  const std::string echo_server = Sibling("farcall_echo_server");
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const uint32_t threshold : {uint32_t{128} << 10, uint32_t{0}}) {
    subjects.push_back(
        std::make_unique<ProcessSubject>(echo_server, Scheme::kShm, Mode::kBusy, threshold));
  }
  return subjects;
}

}  // namespace farcall::bench
