#include "farcall/bench/demo/farcall_subject.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "farcall/bench/demo/beside.h"
#include "farcall/bench/demo/echo_run.h"
#include "farcall/bench/measure/child_process.h"
#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/cores.h"
#include "farcall/bench/measure/socket_options.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/server.h"
#include "farcall/services/echo/echo_impl.h"
#include "farcall/transports/dial.h"

namespace farcall::bench {
namespace {

constexpr char kLoopbackAddress[] = "loopback://demo";

ProgressMode ProgressOf(Mode mode) {
  return mode == Mode::kEvent ? ProgressMode::kEvent : ProgressMode::kBusy;
}

uint64_t BytesSent(const Channel& channel) { return channel.info().connection.counters.bytes_sent; }

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

std::string ProcessSubject::path(const Workload& workload) const {
  if (scheme_ == Scheme::kTcp) return "stream";
  return workload.bytes <= RdmaOptions{}.eager_bytes ? "eager" : "rendezvous";
}

absl::StatusOr<Measurement> ProcessSubject::Run(const Workload& workload,
                                                std::optional<int> server_core) {
  const std::string address = scheme_ == Scheme::kTcp
                                  ? "tcp://127.0.0.1:0"
                                  : "shm://farcall-demo-" + std::to_string(::getpid());
  absl::StatusOr<ChildProcess> server =
      ChildProcess::Start({.command = {server_program_, address, "--mode", NameOf(mode_),
                                       "--congestion", kCongestionControl, "--quiet"},
                           .core = server_core,
                           .ready_prefix = "listening on "});
  if (!server.ok()) return server.status();
  TransportOptions transports;
  transports.tcp.congestion_control = kCongestionControl;
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
  absl::StatusOr<Measurement> measured = RunEcho(channels, workload, CpuOfThisAnd(server->pid()));
  if (!beside) return measured;
  const auto elapsed_ns = static_cast<double>(NowNs() - start_ns);
  const auto sent = static_cast<double>(BytesSent(channels.front()) - sent_before);
  absl::Status payloads = beside->Stop();
  if (!payloads.ok()) return payloads;
  if (measured.ok()) measured->beside_mb_per_s = sent / elapsed_ns * 1e3;
  return measured;
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
