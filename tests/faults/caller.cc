// faults_caller ADDRESS [PING_MS]: starts eight calls of Probe's Wait that take a minute, says
// "listening on ready", says how each ended, makes one more and says how that ended.

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/rpc/probe.h"
#include "farcall/transports/dial.h"

namespace farcall::faults {
namespace {

void Say(const absl::Status& status) {
  constexpr const char* kNames[] = {"not sent", "not run", "unknown", "answered"};
  std::printf("%s %s\n", absl::StatusCodeToString(status.code()).c_str(),
              kNames[static_cast<size_t>(OutcomeOf(status))]);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  if (argc < 2) return 2;
  ChannelOptions options;
  if (argc > 2) {
    options.keepalive.ping_after = options.keepalive.ping_timeout =
        std::chrono::milliseconds(std::atoi(argv[2]));
  }
  auto channel = Dial(argv[1], options);
  if (!channel.ok()) return 1;
  testing::Probe::Client client(*channel);
  std::mutex mutex;
  std::condition_variable ended;
  int left = 8;
  testing::AskT ask;
  ask.number = 60'000;
  for (int i = 0; i < 8; ++i) {
    client.AsyncWait(ask, {.timeout = std::chrono::seconds(60)},
                     [&](const absl::StatusOr<Msg<testing::Answer>>& answer) {
                       Say(answer.status());
                       const std::lock_guard<std::mutex> lock(mutex);
                       if (--left == 0) ended.notify_one();
                     });
  }
  std::puts("listening on ready");
  std::fflush(stdout);
  std::unique_lock<std::mutex> lock(mutex);
  ended.wait(lock, [&] { return left == 0; });
  const CallOptions patient{.timeout = std::chrono::seconds(20), .wait_for_ready = true};
  Say(client.Object(testing::AskT(), patient).status());
  return 0;
}

}  // namespace
}  // namespace farcall::faults

int main(int argc, char** argv) { return farcall::faults::Main(argc, argv); }
