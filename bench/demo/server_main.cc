// farcall_demo_server: the other side of 'farcall_demo --connect'. Serves Echo over tcp:// and
// rdma://, each at one port that sleeps and one that spins (demo/remote.h), until SIGINT or
// SIGTERM.
//
// Who has no adapter is served by TCP, and is told why. The loop that sleeps has the first core,
// the one that spins the second.
#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "farcall/bench/demo/remote.h"
#include "farcall/bench/demo/rounds.h"
#include "farcall/bench/measure/cores.h"
#include "farcall/bench/measure/socket_options.h"
#include "farcall/rpc/log.h"
#include "farcall/rpc/server.h"
#include "farcall/services/echo/echo_impl.h"
#include "farcall/transports/dial.h"

namespace farcall::bench {
namespace {

constexpr char kUsage[] =
    "usage: farcall_demo_server [ADDRESS]\n"
    "Serves what 'farcall_demo --connect HOST' measures on another host, over tcp:// and rdma://,\n"
    "at ADDRESS of this one (an interface's IPv4 address; 0.0.0.0 unless it is given), until it\n"
    "is told to end. What it sends is neither encrypted nor authenticated.\n";

// A server in one mode, on a core of its own.
class ModeServer {
 public:
  // The number of transports that it listens by.
  int Start(const std::string& host, Mode mode, std::optional<int> core) {
    if (core) PinThisThread(*core).IgnoreError();  // it may stay where it is
    server_.emplace(
        ServerOptions{.mode = mode == Mode::kEvent ? ProgressMode::kEvent : ProgressMode::kBusy});
    if (absl::Status added = server_->Add(services::Echo::Bind(echo_)); !added.ok()) {
      std::fprintf(stderr, "farcall_demo_server: %s\n", added.ToString().c_str());
      return 0;
    }
    TransportOptions transports;
    transports.tcp.congestion_control = kCongestionControl;
    int listening = 0;
    for (const auto scheme : {Scheme::kTcp, Scheme::kRdma}) {
      const std::string address = RemoteAddress(scheme, host, mode);
      const absl::StatusOr<Endpoint> bound = Listen(*server_, address, transports);
      if (bound.ok()) {
        std::printf("serves %s, %s\n", bound->ToString().c_str(), NameOf(mode));
        ++listening;
      } else {
        std::printf("does not serve %s: %s\n", address.c_str(),
                    std::string(bound.status().message()).c_str());
      }
    }
    std::fflush(stdout);
    return listening;
  }

 private:
  services::EchoImpl echo_;
  std::optional<Server> server_;  // goes before what it serves
};

int Serve(const std::string& host) {
  // Before any thread exists, so that all of them leave the signals to sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM}) sigaddset(&signals, each);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  SetLogSink({}, LogLevel::kWarning);
  const Cores cores = ChooseCores();
  if (!cores.server) std::puts("one core only: the loop that spins is in the way of the other");
  ModeServer event, busy;
  const int listening =
      event.Start(host, Mode::kEvent, cores.client) + busy.Start(host, Mode::kBusy, cores.server);
  if (listening == 0) return EXIT_FAILURE;
  std::puts("ready");
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace farcall::bench

int main(int argc, char** argv) {
  const std::string host = argc > 1 ? argv[1] : "0.0.0.0";
  if (argc > 2 || host.empty() || host.front() == '-') {
    std::fputs(farcall::bench::kUsage, host == "--help" ? stdout : stderr);
    return host == "--help" ? EXIT_SUCCESS : 2;
  }
  return farcall::bench::Serve(host);
}
