// faults_mixing ADDRESS [fork]: keeps calls of all sizes under way to the Journal at ADDRESS, says
// "listening on ready" once each size succeeded, and at SIGTERM stops and says
// "<succeeded> <failed>". fork: meanwhile it forks again and again, with and without exec; each
// child ends by itself but one, which stays for as long as its parent.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <string_view>
#include <thread>

#include "farcall/tests/faults/mix.h"
#include "farcall/tests/rpc/probe.h"
#include "farcall/transports/dial.h"

namespace farcall::faults {
namespace {

enum class Child { kEnds, kRuns, kStays };

pid_t Fork(Child what) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (what == Child::kEnds) ::_exit(7);
  if (what == Child::kRuns) {
    char program[] = "/bin/true";
    char* words[] = {program, nullptr};
    ::execv(program, words);
    ::_exit(127);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (::getppid() == parent) ::sleep(1);
  ::_exit(0);
}

// True: all of them went as they should.
bool ForkOften() {
  if (Fork(Child::kStays) <= 0) return false;
  for (int i = 0; i < 40; ++i) {
    const bool ends = i % 2 == 0;
    const pid_t child = Fork(ends ? Child::kEnds : Child::kRuns);
    int status = -1;
    if (child <= 0 || ::waitpid(child, &status, 0) != child) return false;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != (ends ? 7 : 0)) return false;
  }
  return true;
}

int Main(int argc, char** argv) {
  if (argc < 2) return 2;
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &end, nullptr);
  auto channel = Dial(argv[1]);
  if (!channel.ok()) return 1;
  Mix mix(*channel);
  if (!testing::Eventually([&] { return mix.Succeeded(2); }, std::chrono::seconds(60))) return 1;
  if (argc > 2 && !ForkOften()) return 1;
  std::puts("listening on ready");
  std::fflush(stdout);
  int signal = 0;
  sigwait(&end, &signal);
  if (!mix.Stop(std::chrono::seconds(60))) return 1;
  std::printf("%" PRIu64 " %" PRIu64 "\n", mix.succeeded(), mix.failed());
  std::fflush(stdout);
  return 0;
}

}  // namespace
}  // namespace farcall::faults

int main(int argc, char** argv) { return farcall::faults::Main(argc, argv); }
