#include "farcall/bench/demo/farcall_subject.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "farcall/bench/demo/beside.h"
#include "farcall/bench/demo/echo_pair.h"
#include "farcall/bench/demo/echo_run.h"
#include "farcall/bench/measure/child_process.h"
#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/socket_options.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/transports/dial.h"

namespace farcall::bench {
namespace {

constexpr char kLoopbackAddress[] = "loopback://demo";

ProgressMode ProgressOf(Mode mode) {
  return mode == Mode::kEvent ? ProgressMode::kEvent : ProgressMode::kBusy;
}

absl::StatusOr<Costs> OperationsAt(const std::string& address, Mode mode, const Workload& workload,
                                   std::optional<int> server_core) {
  const absl::StatusOr<std::unique_ptr<EchoPair>> pair = EchoPair::Make(address, mode, server_core);
  if (!pair.ok()) return pair.status();
  return (*pair)->CountOperations(workload);
}

uint64_t BytesSent(const Channel& channel) { return channel.info().connection.counters.bytes_sent; }

}  // namespace

std::string ProcessSubject::path(const Workload& workload) const {
  if (scheme_ == Scheme::kTcp) return "stream";
  return workload.bytes <= threshold_.value_or(RdmaOptions{}.eager_bytes) ? "eager" : "rendezvous";
}

std::string ProcessSubject::Address() const {
  return scheme_ == Scheme::kTcp ? "tcp://127.0.0.1:0"
                                 : "shm://farcall-demo-" + std::to_string(::getpid());
}

absl::StatusOr<Measurement> ProcessSubject::Run(const Workload& workload,
                                                std::optional<int> server_core) {
  ChildProcess::Options options{.command = {server_program_, Address(), "--mode", NameOf(mode_),
                                            "--congestion", kCongestionControl, "--quiet"},
                                .core = server_core,
                                .ready_prefix = "listening on "};
  TransportOptions transports;
  transports.tcp.congestion_control = kCongestionControl;
  if (threshold_) {
    options.command.insert(options.command.end(), {"--eager", std::to_string(*threshold_)});
    RdmaOptions& rdma = transports.shm.rdma;
    rdma.threshold = threshold_;
    rdma.eager_bytes = std::max(rdma.eager_bytes, *threshold_);
  }
  absl::StatusOr<ChildProcess> server = ChildProcess::Start(options);
  if (!server.ok()) return server.status();
  const auto loop = std::make_shared<EventLoop>(EventLoopOptions{.mode = ProgressOf(mode_)});
  std::vector<Channel> channels;
  for (int i = 0; i < workload.connections; ++i) {
    absl::StatusOr<Channel> channel = Dial(server->ready_line(), {.loop = loop}, transports);
    if (!channel.ok()) return channel.status();
    channels.push_back(*std::move(channel));
  }
  const absl::StatusOr<std::vector<Channel>> idle =
      OpenIdle(server->ready_line(), workload.idle_connections, loop);
  if (!idle.ok()) return idle.status();
  std::optional<PayloadsBeside> beside;
  if (workload.beside_bytes > 0) beside.emplace(channels.front(), workload.beside_bytes);
  const uint64_t sent_before = BytesSent(channels.front());
  const uint64_t start_ns = NowNs();
  absl::StatusOr<Measurement> measured =
      RunEcho(channels, workload, MetersOf(workload, server->pid()));
  if (!beside) return measured;
  const auto elapsed_ns = static_cast<double>(NowNs() - start_ns);
  const auto sent = static_cast<double>(BytesSent(channels.front()) - sent_before);
  absl::Status payloads = beside->Stop();
  if (!payloads.ok()) return payloads;
  if (measured.ok()) measured->beside_mb_per_s = sent / elapsed_ns * 1e3;
  return measured;
}

absl::StatusOr<Costs> ProcessSubject::CountOperations(const Workload& workload,
                                                      std::optional<int> server_core) {
  return OperationsAt(Address(), mode_, workload, server_core);
}

absl::StatusOr<Measurement> LoopbackSubject::Run(const Workload& workload,
                                                 std::optional<int> server_core) {
  const absl::StatusOr<std::unique_ptr<EchoPair>> pair =
      EchoPair::Make(kLoopbackAddress, mode_, server_core);
  if (!pair.ok()) return pair.status();
  return RunEcho({&(*pair)->channel(), 1}, workload, MetersOf(workload, std::nullopt));
}

absl::StatusOr<Costs> LoopbackSubject::CountOperations(const Workload& workload,
                                                       std::optional<int> server_core) {
  return OperationsAt(kLoopbackAddress, mode_, workload, server_core);
}

}  // namespace farcall::bench
