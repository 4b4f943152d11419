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
#include "farcall/bench/demo/echo_calls.h"
#include "farcall/bench/demo/echo_pair.h"
#include "farcall/bench/demo/echo_run.h"
#include "farcall/bench/measure/child_process.h"
#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/socket_options.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/frame.h"
#include "farcall/transports/dial.h"
#include "farcall/transports/rdma/envelope.h"

namespace farcall::bench {
namespace {

// An emulated machine takes its time to start a program.
constexpr std::chrono::seconds kStartPatience(20);

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

TransportOptions OneCongestionControl() {
  TransportOptions transports;
  transports.tcp.congestion_control = kCongestionControl;
  return transports;
}

std::string PathOf(Scheme scheme, const Workload& workload, uint32_t threshold) {
  if (scheme == Scheme::kTcp) return "stream";
  return workload.bytes <= threshold ? "eager" : "rendezvous";
}

// The workload over channels to a server in another process.
absl::StatusOr<Measurement> RunAgainst(const std::string& address, Mode mode,
                                       const TransportOptions& transports, const Workload& workload,
                                       const Meters& meters) {
  const auto loop = std::make_shared<EventLoop>(EventLoopOptions{.mode = ProgressOf(mode)});
  std::vector<Channel> channels;
  for (int i = 0; i < workload.connections; ++i) {
    absl::StatusOr<Channel> channel = Dial(address, {.loop = loop}, transports);
    if (!channel.ok()) return channel.status();
    channels.push_back(*std::move(channel));
  }
  const absl::StatusOr<std::vector<Channel>> idle =
      OpenIdle(address, workload.idle_connections, loop);
  if (!idle.ok()) return idle.status();
  std::optional<PayloadsBeside> beside;
  if (workload.beside_bytes > 0) beside.emplace(channels.front(), workload.beside_bytes);
  const uint64_t sent_before = BytesSent(channels.front());
  const uint64_t start_ns = NowNs();
  absl::StatusOr<Measurement> measured = RunEcho(channels, workload, meters);
  if (!beside) return measured;
  const auto elapsed_ns = static_cast<double>(NowNs() - start_ns);
  const auto sent = static_cast<double>(BytesSent(channels.front()) - sent_before);
  absl::Status payloads = beside->Stop();
  if (!payloads.ok()) return payloads;
  if (measured.ok()) measured->beside_mb_per_s = sent / elapsed_ns * 1e3;
  return measured;
}

}  // namespace

const char* TransportOf(Scheme scheme) {
  switch (scheme) {
    case Scheme::kTcp:
      return "tcp";
    case Scheme::kShm:
      return "shm";
    case Scheme::kRdma:
      break;
  }
  return "rdma";
}

std::string ProcessSubject::device() const {
  return scheme_ == Scheme::kTcp ? "kernel" : scheme_ == Scheme::kShm ? "softnic" : adapter_;
}

std::string ProcessSubject::path(const Workload& workload) const {
  return PathOf(scheme_, workload, threshold_.value_or(RdmaOptions{}.eager_bytes));
}

std::string ProcessSubject::Address() const {
  switch (scheme_) {
    case Scheme::kTcp:
      return "tcp://127.0.0.1:0";
    case Scheme::kShm:
      return "shm://farcall-demo-" + std::to_string(::getpid());
    case Scheme::kRdma:
      break;
  }
  return "rdma://" + host_ + ":0";
}

absl::StatusOr<Measurement> ProcessSubject::Run(const Workload& workload,
                                                std::optional<int> server_core) {
  ChildProcess::Options options{.command = {server_program_, Address(), "--mode", NameOf(mode_),
                                            "--congestion", kCongestionControl, "--quiet"},
                                .core = server_core,
                                .ready_prefix = "listening on ",
                                .ready_timeout = kStartPatience};
  TransportOptions transports = OneCongestionControl();
  if (threshold_) {
    options.command.insert(options.command.end(), {"--eager", std::to_string(*threshold_)});
    RdmaOptions& rdma = transports.shm.rdma;
    rdma.threshold = threshold_;
    rdma.eager_bytes = std::max(rdma.eager_bytes, *threshold_);
  }
  const absl::StatusOr<ChildProcess> server = ChildProcess::Start(options);
  if (!server.ok()) return server.status();
  return RunAgainst(server->ready_line(), mode_, transports, workload,
                    MetersOf(workload, server->pid()));
}

std::string RemoteSubject::path(const Workload& workload) const {
  return PathOf(scheme_, workload, RdmaOptions{}.eager_bytes);
}

absl::StatusOr<Measurement> RemoteSubject::Run(const Workload& workload,
                                               std::optional<int> /*server_core*/) {
  return RunAgainst(address_, mode_, OneCongestionControl(), workload, Meters{});
}

absl::StatusOr<size_t> WireBytesOf(const std::string& address, size_t payload_bytes) {
  const absl::StatusOr<Channel> channel = Dial(address);
  if (!channel.ok()) return channel.status();
  absl::StatusOr<EchoCalls> calls =
      EchoCalls::Make(*channel, {.kind = Case::kLatency, .bytes = payload_bytes});
  if (!calls.ok()) return calls.status();
  absl::Status called = calls->Call(1);
  if (!called.ok()) return called;
  const ConnectionCounters counters = channel->info().connection.counters;
  const auto wire = [](uint64_t bytes, uint64_t messages) {
    const uint64_t body = bytes / messages - kFrameHeaderBytes;
    return rdma::LayoutOf(rdma::Kind::kMessage, kFrameHeaderBytes, {body, 0}).end;
  };
  return (wire(counters.bytes_sent, counters.messages_sent) +
          wire(counters.bytes_received, counters.messages_received) + 1) /
         2;
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
