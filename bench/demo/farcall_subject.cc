#include "farcall/bench/demo/farcall_subject.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "farcall/bench/demo/beside.h"
#include "farcall/bench/demo/echo_calls.h"
#include "farcall/bench/demo/echo_run.h"
#include "farcall/bench/measure/child_process.h"
#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/cores.h"
#include "farcall/bench/measure/socket_options.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/frame.h"
#include "farcall/rpc/server.h"
#include "farcall/services/echo/echo_impl.h"
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

// What a run costs the two processes, from when this is made.
class CostMeter {
 public:
  // `server`: where it is of this host.
  CostMeter(const Channel& channel, std::optional<pid_t> server)
      : channel_(channel), server_(server) {}

  Costs PerCall() const {
    const ConnectionCounters now = channel_.info().connection.counters;
    const auto calls = static_cast<double>(now.messages_sent - counters_.messages_sent);
    if (calls == 0) return {};
    const auto per_call = [calls](uint64_t after, uint64_t before) {
      return static_cast<double>(after - before) / calls;
    };
    Costs costs{.context_switches = {},
                .send_calls = per_call(now.send_calls, counters_.send_calls),
                .receive_calls = per_call(now.receive_calls, counters_.receive_calls),
                .copied_bytes = per_call(now.payload_bytes_copied, counters_.payload_bytes_copied)};
    const std::optional<uint64_t> switches = Switches();
    if (switches && switches_) costs.context_switches = per_call(*switches, *switches_);
    return costs;
  }

 private:
  std::optional<uint64_t> Switches() const {
    if (!server_) return std::nullopt;
    const absl::StatusOr<uint64_t> own = ContextSwitchesOf(::getpid());
    const absl::StatusOr<uint64_t> servers = ContextSwitchesOf(*server_);
    if (!own.ok() || !servers.ok()) return std::nullopt;
    return *own + *servers;
  }

  const Channel& channel_;
  const std::optional<pid_t> server_;
  const ConnectionCounters counters_ = channel_.info().connection.counters;
  const std::optional<uint64_t> switches_ = Switches();
};

uint64_t BytesSent(const Channel& channel) { return channel.info().connection.counters.bytes_sent; }

std::string PathOf(Scheme scheme, const Workload& workload) {
  if (scheme == Scheme::kTcp) return "stream";
  return workload.bytes <= RdmaOptions{}.eager_bytes ? "eager" : "rendezvous";
}

// The workload over channels to a server in another process; `server`: which, if it is of this
// host.
absl::StatusOr<Measurement> RunAgainst(const std::string& address, Mode mode,
                                       const Workload& workload, std::optional<pid_t> server) {
  TransportOptions transports;
  transports.tcp.congestion_control = kCongestionControl;
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
  const CostMeter costs(channels.front(), server);
  absl::StatusOr<Measurement> measured =
      RunEcho(channels, workload, server ? CpuOfThisAnd(*server) : CpuMeter());
  if (measured.ok() && workload.alone()) measured->costs = costs.PerCall();
  if (!beside) return measured;
  const auto elapsed_ns = static_cast<double>(NowNs() - start_ns);
  const auto sent = static_cast<double>(BytesSent(channels.front()) - sent_before);
  absl::Status payloads = beside->Stop();
  if (!payloads.ok()) return payloads;
  if (measured.ok()) measured->beside_mb_per_s = sent / elapsed_ns * 1e3;
  return measured;
}

// Threads that start while this lives run on `core`; afterwards this thread is back where it was.
class StartThreadsOn {
 public:
  explicit StartThreadsOn(std::optional<int> core) {
    if (!core) return;
    home_ = AllowedCores();
    status_ = PinThisThread(*core);
  }
  ~StartThreadsOn() {
    if (!home_.empty()) PinThisThread(home_.front()).IgnoreError();  // it could run there before
  }
  StartThreadsOn(const StartThreadsOn&) = delete;
  StartThreadsOn& operator=(const StartThreadsOn&) = delete;

  const absl::Status& status() const { return status_; }

 private:
  std::vector<int> home_;
  absl::Status status_;
};

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
  return PathOf(scheme_, workload);
}

absl::StatusOr<Measurement> ProcessSubject::Run(const Workload& workload,
                                                std::optional<int> server_core) {
  const std::string address = scheme_ == Scheme::kTcp ? "tcp://127.0.0.1:0"
                              : scheme_ == Scheme::kRdma
                                  ? "rdma://" + host_ + ":0"
                                  : "shm://farcall-demo-" + std::to_string(::getpid());
  const absl::StatusOr<ChildProcess> server =
      ChildProcess::Start({.command = {server_program_, address, "--mode", NameOf(mode_),
                                       "--congestion", kCongestionControl, "--quiet"},
                           .core = server_core,
                           .ready_prefix = "listening on ",
                           .ready_timeout = kStartPatience});
  if (!server.ok()) return server.status();
  return RunAgainst(server->ready_line(), mode_, workload, server->pid());
}

std::string RemoteSubject::path(const Workload& workload) const {
  return PathOf(scheme_, workload);
}

absl::StatusOr<Measurement> RemoteSubject::Run(const Workload& workload,
                                               std::optional<int> /*server_core*/) {
  return RunAgainst(address_, mode_, workload, std::nullopt);
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

absl::StatusOr<Measurement> LoopbackSubject::Run(const Workload& workload,
                                                 std::optional<int> server_core) {
  services::EchoImpl echo;
  std::optional<Server> server;
  {
    const StartThreadsOn there(server_core);
    if (!there.status().ok()) return there.status();
    server.emplace(ServerOptions{.mode = ProgressOf(mode_)});
  }
  absl::Status added = server->Add(services::Echo::Bind(echo));
  if (!added.ok()) return added;
  const absl::StatusOr<Endpoint> address = Listen(*server, kLoopbackAddress);
  if (!address.ok()) return address.status();
  const absl::StatusOr<Channel> channel = Dial(kLoopbackAddress, {.mode = ProgressOf(mode_)});
  if (!channel.ok()) return channel.status();
  return RunEcho({&*channel, 1}, workload, []() -> absl::StatusOr<uint64_t> { return OwnCpuNs(); });
}

}  // namespace farcall::bench
