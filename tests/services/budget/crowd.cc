// budget_crowd ADDRESS SERVER_PID FIRST SECOND [CALLS BYTES]
//
// Opens FIRST channels on one loop, each of which makes CALLS calls (1) that carry BYTES (5) there
// and back and then idles, and as many more as make SECOND; prints by how many bytes a connection
// the memory rose from the first count to the second: of this process, then of the server. What two
// processes share is half of each one's: that is what each has of its own, for they share alike.

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

int64_t MemoryOf(const std::string& process) {
  std::ifstream status("/proc/" + process + "/smaps_rollup");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "Pss:" && status >> kilobytes) return kilobytes * 1024;
  }
  Fail("no size of process " + process);
}

struct Traffic {
  size_t calls = 1;
  size_t bytes = 5;
};

void Add(std::vector<Channel>& channels, size_t count, const std::string& address,
         const Traffic& traffic, const std::shared_ptr<EventLoop>& loop) {
  const std::string text(traffic.bytes, 'x');
  while (channels.size() < count) {
    absl::StatusOr<Channel> channel = Dial(address, {.loop = loop});
    if (!channel.ok()) Fail(channel.status().ToString());
    services::Echo::Client echo(*channel);
    for (size_t i = 0; i < traffic.calls; ++i) {
      Builder<services::SayRequest> request = echo.NewSay();
      request.Finish(services::CreateSayRequest(request, request.CreateString(text)));
      const auto reply = echo.Say(std::move(request),
                                  {.timeout = std::chrono::seconds(10), .wait_for_ready = true});
      if (!reply.ok()) Fail(reply.status().ToString());
      if ((*reply)->text()->size() != text.size()) Fail("another text came back");
    }
    channels.push_back(*std::move(channel));
  }
}

int Main(int argc, char** argv) {
  if (argc != 5 && argc != 7) {
    Fail("usage: budget_crowd ADDRESS SERVER_PID FIRST SECOND [CALLS BYTES]");
  }
  const auto first = std::strtoul(argv[3], nullptr, 10);
  const auto second = std::strtoul(argv[4], nullptr, 10);
  Traffic traffic;
  if (argc == 7) {
    traffic = {std::strtoul(argv[5], nullptr, 10), std::strtoul(argv[6], nullptr, 10)};
  }
  const auto loop = std::make_shared<EventLoop>(EventLoopOptions{.name = "crowd"});
  std::vector<Channel> channels;
  channels.reserve(second);
  Add(channels, first, argv[1], traffic, loop);
  const int64_t ours = MemoryOf("self");
  const int64_t theirs = MemoryOf(argv[2]);
  Add(channels, second, argv[1], traffic, loop);
  const auto added = static_cast<int64_t>(second - first);
  std::printf("%lld %lld\n", static_cast<long long>((MemoryOf("self") - ours) / added),
              static_cast<long long>((MemoryOf(argv[2]) - theirs) / added));
  return 0;
}

}  // namespace
}  // namespace farcall::testing

int main(int argc, char** argv) { return farcall::testing::Main(argc, argv); }
