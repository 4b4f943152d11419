// budget_crowd ADDRESS SERVER_PID FIRST SECOND
//
// Opens FIRST channels on one loop, each of which makes a call and then idles, and as many more as
// make SECOND; prints by how many bytes a connection the resident size rose from the first count to
// the second: of this process, then of the server.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "echo.rpc.h"
#include "farcall/transports/dial.h"

namespace farcall::testing {
namespace {

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "budget_crowd: %s\n", why.c_str());
  std::exit(1);
}

int64_t ResidentBytes(const std::string& process) {
  std::ifstream status("/proc/" + process + "/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmRSS:" && status >> kilobytes) return kilobytes * 1024;
  }
  Fail("no resident size of process " + process);
}

void Add(std::vector<Channel>& channels, size_t count, const std::string& address,
         const std::shared_ptr<EventLoop>& loop) {
  while (channels.size() < count) {
    absl::StatusOr<Channel> channel = Dial(address, {.loop = loop});
    if (!channel.ok()) Fail(channel.status().ToString());
    services::Echo::Client echo(*channel);
    Builder<services::SayRequest> request = echo.NewSay();
    request.Finish(services::CreateSayRequest(request, request.CreateString("hello")));
    const auto reply =
        echo.Say(std::move(request), {.timeout = std::chrono::seconds(10), .wait_for_ready = true});
    if (!reply.ok()) Fail(reply.status().ToString());
    channels.push_back(*std::move(channel));
  }
}

int Main(int argc, char** argv) {
  if (argc != 5) Fail("usage: budget_crowd ADDRESS SERVER_PID FIRST SECOND");
  const auto first = std::strtoul(argv[3], nullptr, 10);
  const auto second = std::strtoul(argv[4], nullptr, 10);
  const auto loop = std::make_shared<EventLoop>(EventLoopOptions{.name = "crowd"});
  std::vector<Channel> channels;
  channels.reserve(second);
  Add(channels, first, argv[1], loop);
  const int64_t ours = ResidentBytes("self");
  const int64_t theirs = ResidentBytes(argv[2]);
  Add(channels, second, argv[1], loop);
  const auto added = static_cast<int64_t>(second - first);
  std::printf("%lld %lld\n", static_cast<long long>((ResidentBytes("self") - ours) / added),
              static_cast<long long>((ResidentBytes(argv[2]) - theirs) / added));
  return 0;
}

}  // namespace
}  // namespace farcall::testing

int main(int argc, char** argv) { return farcall::testing::Main(argc, argv); }
