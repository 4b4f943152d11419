// faults_server ADDRESS FILE PING_MS: serves Journal (into FILE), Probe, Blocker and Saboteur at
// ADDRESS. PING_MS: keepalive.ping_after and ping_timeout; 0: the defaults.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "farcall/tests/faults/interrupts.h"
#include "farcall/tests/rpc/probe.h"
#include "farcall/tests/services/journal.h"
#include "farcall/transports/dial.h"
#include "saboteur.rpc.h"

namespace farcall::faults {
namespace {

// What a child of a process with threads may do: calls that are safe in signal handlers.
enum class Child { kRuns, kEnds, kStays };

pid_t Fork(Child child) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  if (child == Child::kEnds) ::_exit(7);
  // The library's threads block signals, and a child inherits that.
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::alarm(60);  // nobody is left behind by a test that dies
  if (child == Child::kRuns) {
    char program[] = "/bin/sleep", time[] = "60";
    char* words[] = {program, time, nullptr};
    ::execv(program, words);
    ::_exit(127);
  }
  while (true) ::pause();
}

class SaboteurImpl {
 public:
  absl::Status Do(Context& /*context*/, const Order& order, Reply<Report>& reply) {
    const std::string what = order.what()->str();
    int64_t number = 0;
    if (what == "interrupt") {
      if (order.number() > 0) Interrupts::Begin(std::chrono::microseconds(order.number()));
      number = Interrupts::count();
    } else if (what == "run") {
      number = Fork(Child::kRuns);
    } else if (what == "stay") {
      number = Fork(Child::kStays);
    } else if (what == "fork") {
      const pid_t pid = Fork(Child::kEnds);
      int status = 0;
      while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
      }
      number = WEXITSTATUS(status);
    } else {
      return absl::InvalidArgumentError("no such order");
    }
    reply.Finish(CreateReport(reply, number));
    return absl::OkStatus();
  }
};

int Main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: faults_server ADDRESS FILE PING_MS\n", stderr);
    return 2;
  }
  const int file = ::open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) {
    std::perror(argv[2]);
    return 1;
  }
  testing::JournalImpl journal(file);
  testing::ProbeImpl probe;
  testing::BlockerImpl blocker;
  SaboteurImpl saboteur;
  ServerOptions options;
  if (const int ping_ms = std::atoi(argv[3]); ping_ms > 0) {
    options.keepalive.ping_after = options.keepalive.ping_timeout =
        std::chrono::milliseconds(ping_ms);
  }
  Server server(options);
  absl::Status ready = server.Add(testing::Journal::Bind(journal));
  ready.Update(server.Add(testing::Probe::Bind(probe)));
  ready.Update(server.Add(testing::Blocker::Bind(blocker, {.blocking = true})));
  ready.Update(server.Add(Saboteur::Bind(saboteur)));
  absl::StatusOr<Endpoint> address = Listen(server, argv[1]);
  ready.Update(address.status());
  if (!ready.ok()) {
    std::fprintf(stderr, "faults_server: %s\n", ready.ToString().c_str());
    return 1;
  }
  std::printf("listening on %s\n", address->ToString().c_str());
  std::fflush(stdout);
  server.Wait();
  return 0;
}

}  // namespace
}  // namespace farcall::faults

int main(int argc, char** argv) { return farcall::faults::Main(argc, argv); }
