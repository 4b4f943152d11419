#include "farcall/bench/demo/peer_subject.h"

#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>

#include "farcall/bench/measure/child_process.h"
#include "farcall/bench/measure/handover.h"

namespace farcall::bench {
namespace {

constexpr char kGrpcPackages[] = "libgrpc++-dev, libprotobuf-dev and protobuf-compiler-grpc";

// All that there may be, in the order in which they run.
constexpr PeerName kPeers[] = {
    {"peer/ucx-shm", "memory", Mode::kBusy, "farcall_peer_ucx", "shm", "libucx-dev", true},
    {"peer/ucx-tcp", "kernel", Mode::kBusy, "farcall_peer_ucx", "tcp", "libucx-dev", false},
    {"peer/thrift", "kernel", Mode::kEvent, "farcall_peer_thrift", "threaded",
     "libthrift-dev and thrift-compiler", false},
    {"peer/capnp", "kernel", Mode::kEvent, "farcall_peer_capnp", "rpc",
     "libcapnp-dev and capnproto", false},
    {"peer/grpc-callback", "kernel", Mode::kEvent, "farcall_peer_grpc", "callback", kGrpcPackages,
     false},
    {"peer/grpc-sync", "kernel", Mode::kEvent, "farcall_peer_grpc", "sync", kGrpcPackages, false},
};

constexpr size_t kSmallBytes = 32;
constexpr size_t kLargeBytes = 1 << 20;

// The largest of the demo's sizes that UCX sends eagerly over shared memory is 4 KiB.
constexpr size_t kMaxUcxEagerBytes = 8 << 10;

// Beyond warm-up and measured part: to start, to compare some replies, to end.
constexpr std::chrono::seconds kPatience(20);

// A peer that is there and cannot run must not end the demo in the middle.
Workload FirstCall() {
  return {.duration = std::chrono::milliseconds(1), .warm_up = std::chrono::milliseconds(1)};
}

std::chrono::milliseconds InMs(std::chrono::nanoseconds time) {
  return std::chrono::ceil<std::chrono::milliseconds>(time);
}

}  // namespace

bool PeerSubject::Knows(const Workload& workload) const {
  return workload.alone() &&
         (name_.every_size || workload.bytes == kSmallBytes || workload.bytes == kLargeBytes);
}

std::string PeerSubject::path(const Workload& workload) const {
  if (std::string_view(name_.device) == "kernel") return "stream";
  return workload.bytes <= kMaxUcxEagerBytes ? "eager" : "rendezvous";
}

absl::StatusOr<std::string> PeerSubject::About() const {
  const absl::StatusOr<ChildProcess> about = ChildProcess::Start(
      {.command = {program_, name_.variant, "about"}, .core = {}, .ready_prefix = "about "});
  if (!about.ok()) return about.status();
  return about->ready_line();
}

absl::StatusOr<Measurement> PeerSubject::Run(const Workload& workload,
                                             std::optional<int> server_core) {
  const std::vector<std::string> what = {NameOf(workload.kind), std::to_string(workload.bytes),
                                         std::to_string(workload.outstanding)};
  ChildProcess::Options options{.command = {program_, name_.variant, "serve"},
                                .core = server_core,
                                .ready_prefix = "listening on "};
  options.command.insert(options.command.end(), what.begin(), what.end());
  const absl::StatusOr<ChildProcess> server = ChildProcess::Start(options);
  if (!server.ok()) return server.status();

  options = {.command = {program_, name_.variant, "call"},
             .core = {},
             .ready_prefix = "measured ",
             .ready_timeout = InMs(workload.warm_up + workload.duration + kPatience)};
  options.command.insert(options.command.end(), what.begin(), what.end());
  for (const auto time : {workload.warm_up, workload.duration}) {
    options.command.push_back(std::to_string(InMs(time).count()));
  }
  options.command.push_back(server->ready_line());
  options.command.push_back(std::to_string(server->pid()));
  if (workload.counted) options.command.emplace_back("counted");
  const absl::StatusOr<ChildProcess> client = ChildProcess::Start(options);
  if (!client.ok()) return client.status();
  return FromLine(client->ready_line());
}

PeersHere FindPeers(const std::string& folder, std::optional<int> server_core) {
  PeersHere here;
  for (const PeerName& name : kPeers) {
    auto peer = std::make_unique<PeerSubject>(name, folder);
    const std::string left_out = std::string(name.transport) + " is left out: ";
    const absl::StatusOr<std::string> about = peer->About();
    if (!about.ok()) {
      here.left_out.push_back(left_out + std::string(about.status().message()) + "; install " +
                              name.packages + " and build target farcall_peers");
      continue;
    }
    const absl::Status called = peer->Run(FirstCall(), server_core).status();
    if (!called.ok()) {
      here.left_out.push_back(left_out + "its first call failed: " + std::string(called.message()));
      continue;
    }
    here.about.emplace_back(name.transport, *about);
    here.subjects.push_back(std::move(peer));
  }
  return here;
}

}  // namespace farcall::bench
