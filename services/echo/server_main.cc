// farcall_echo_server ADDRESS [--mode event|busy|adaptive] [--loops N] [--congestion NAME]
//                     [--eager BYTES] [--quiet]
//
// Serves Echo at ADDRESS until SIGINT or SIGTERM, then drains. Prints "listening on ADDRESS" once
// it does. SIGUSR1 prints what was counted so far to standard error. --eager: over shared memory
// payloads up to this size, a multiple of 64, travel in the message, and no others. --quiet logs
// warnings only, not who comes and goes.

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "farcall/rpc/log.h"
#include "farcall/services/echo/echo_impl.h"
#include "farcall/transports/dial.h"

namespace farcall::services {
namespace {

constexpr char kUsage[] =
    "usage: farcall_echo_server ADDRESS [--mode event|busy|adaptive] [--loops N] "
    "[--congestion NAME] [--eager BYTES] [--quiet]\n";

struct Arguments {
  std::string address;
  ServerOptions server;
  TransportOptions transports;
  bool quiet = false;
};

bool ParseMode(std::string_view word, ProgressMode& mode) {
  if (word == "event") {
    mode = ProgressMode::kEvent;
  } else if (word == "busy") {
    mode = ProgressMode::kBusy;
  } else if (word == "adaptive") {
    mode = ProgressMode::kAdaptive;
  } else {
    return false;
  }
  return true;
}

bool Parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--")) {
      arguments.address = word;
      continue;
    }
    if (word == "--quiet") {
      arguments.quiet = true;
      continue;
    }
    if (++i == argc) return false;
    if (word == "--mode") {
      if (!ParseMode(argv[i], arguments.server.mode)) return false;
    } else if (word == "--loops") {
      arguments.server.loops = std::strtoul(argv[i], nullptr, 10);
      if (arguments.server.loops == 0) return false;
    } else if (word == "--eager") {
      RdmaOptions& rdma = arguments.transports.shm.rdma;
      rdma.threshold = static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10));
      rdma.eager_bytes = std::max(rdma.eager_bytes, *rdma.threshold);
    } else if (word == "--congestion") {
      arguments.transports.tcp.congestion_control = argv[i];
    } else {
      return false;
    }
  }
  return !arguments.address.empty();
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  // Before any thread exists, so that all of them leave the signals to sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, each);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  SetLogSink({}, arguments.quiet ? LogLevel::kWarning : LogLevel::kInfo);
  EchoImpl echo;
  Server server(arguments.server);
  if (absl::Status added = server.Add(Echo::Bind(echo)); !added.ok()) {
    std::fprintf(stderr, "farcall_echo_server: %s\n", added.ToString().c_str());
    return 1;
  }
  absl::StatusOr<Endpoint> address = Listen(server, arguments.address, arguments.transports);
  if (!address.ok()) {
    std::fprintf(stderr, "farcall_echo_server: %s\n", address.status().ToString().c_str());
    return 1;
  }
  std::printf("listening on %s\n", address->ToString().c_str());
  std::fflush(stdout);

  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && signal == SIGUSR1) {
    std::fputs(Dump(server.metrics()).c_str(), stderr);
  }
  if (absl::Status shut = server.Shutdown(std::chrono::seconds(5)); !shut.ok()) {
    std::fprintf(stderr, "farcall_echo_server: %s\n", shut.ToString().c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace farcall::services

int main(int argc, char** argv) { return farcall::services::Main(argc, argv); }
