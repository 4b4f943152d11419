// faults_exiting ADDRESS HOW: has calls under way to the server at ADDRESS and to one of its own,
// by callbacks, in a coroutine and blocking, on objects of static duration; says "listening on
// ready"; and ends at SIGTERM with status 7, by HOW:
//   return         main returns
//   exit           a thread calls exit while main is blocked in a call
//   callback       a callback calls exit
//   quick_exit, _exit

#include <signal.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "farcall/tests/rpc/probe.h"
#include "farcall/transports/dial.h"

namespace farcall::faults {
namespace {

constexpr int kStatus = 7;
constexpr int kCallbacks = 16;  // to each server
const CallOptions kLong{.timeout = std::chrono::seconds(60)};

// They go when the process ends, in the opposite order.
testing::ProbeImpl probe;
std::optional<Server> server;
std::optional<Channel> channel, own;

testing::AskT Minute() {
  testing::AskT ask;
  ask.number = 60'000;
  return ask;
}

void StartCalls(Channel& to) {
  testing::Probe::Client client(to);
  for (int i = 0; i < kCallbacks; ++i) {
    client.AsyncWait(Minute(), kLong, [](const absl::StatusOr<Msg<testing::Answer>>&) {});
  }
}

void StartCoroutine(Channel& to) {
  asio::co_spawn(
      to.loop().executor(),
      [client = testing::Probe::Client(to)]() mutable -> asio::awaitable<void> {
        auto ignored = co_await client.AsyncWait(Minute(), kLong, asio::use_awaitable);
        (void)ignored;
      },
      asio::detached);
}

void WaitForSignal() {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  int signal = 0;
  sigwait(&end, &signal);
}

// With a handle of its own: what is of static duration may go meanwhile.
void BlockInCall() {
  Channel mine = *channel;
  testing::Probe::Client(mine).Wait(Minute(), kLong).IgnoreError();
}

int End(std::string_view how) {
  std::puts("listening on ready");
  std::fflush(stdout);
  if (how == "exit") {
    std::thread([] {
      WaitForSignal();
      std::exit(kStatus);
    }).detach();
    while (true) BlockInCall();
  }
  std::thread([] {
    while (true) BlockInCall();
  }).detach();
  WaitForSignal();
  if (how == "callback") {
    testing::Probe::Client(*channel).AsyncObject(
        testing::AskT(), kLong,
        [](const absl::StatusOr<Msg<testing::Answer>>&) { std::exit(kStatus); });
    while (true) ::pause();
  }
  if (how == "quick_exit") std::quick_exit(kStatus);
  if (how == "_exit") ::_exit(kStatus);
  return kStatus;
}

int Main(int argc, char** argv) {
  if (argc != 3) return 2;
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &end, nullptr);
  server.emplace();
  if (!server->Add(testing::Probe::Bind(probe)).ok()) return 1;
  const std::string mine = std::string_view(argv[1]).starts_with("shm://")
                               ? "shm://exiting-" + std::to_string(::getpid())
                               : "tcp://127.0.0.1:0";
  const auto at = Listen(*server, mine);
  if (!at.ok()) return 1;
  channel.emplace(Dial(argv[1]).value());
  own.emplace(Dial(at->ToString()).value());
  StartCalls(*channel);
  StartCalls(*own);
  StartCoroutine(*channel);
  if (!testing::Eventually([] { return probe.ran >= kCallbacks; })) return 1;
  // Answered: what was sent to that server before is there too.
  if (!testing::Probe::Client(*channel).Object(testing::AskT(), kLong).ok()) return 1;
  return End(argv[2]);
}

}  // namespace
}  // namespace farcall::faults

int main(int argc, char** argv) { return farcall::faults::Main(argc, argv); }
