// farcall_echo_client ADDRESS [TEXT] [--calls N] [--timeout SECONDS]
//
// Sends TEXT to the Echo service at ADDRESS, prints what came back, then says how long N calls took
// each. A call may take 2 seconds, or SECONDS, which includes connecting.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "echo.rpc.h"
#include "farcall/transports/dial.h"

namespace farcall::services {
namespace {

constexpr char kUsage[] =
    "usage: farcall_echo_client ADDRESS [TEXT] [--calls N] [--timeout SECONDS]\n";

absl::StatusOr<Msg<SayReply>> Say(Echo::Client& echo, const std::string& text, Duration timeout) {
  Builder<SayRequest> request = echo.NewSay();
  request.Finish(CreateSayRequest(request, request.CreateString(text)));
  return echo.Say(std::move(request), {.timeout = timeout, .wait_for_ready = true});
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "farcall_echo_client: %s\n", status.ToString().c_str());
  return 1;
}

int Run(const std::string& address, const std::string& text, size_t calls, Duration timeout) {
  absl::StatusOr<Channel> channel = Dial(address);
  if (!channel.ok()) return Fail(channel.status());
  Echo::Client echo(*channel);
  absl::StatusOr<Msg<SayReply>> reply = Say(echo, text, timeout);
  if (!reply.ok()) return Fail(reply.status());
  std::printf("%s\n", (*reply)->text()->c_str());

  std::vector<double> microseconds;
  for (size_t i = 0; i < calls; ++i) {
    const TimePoint start = Clock::Steady().Now();
    reply = Say(echo, text, timeout);
    if (!reply.ok()) return Fail(reply.status());
    microseconds.push_back(
        std::chrono::duration<double, std::micro>(Clock::Steady().Now() - start).count());
  }
  if (calls == 0) return 0;
  std::sort(microseconds.begin(), microseconds.end());
  std::printf("%zu calls over %s: median %.1f us, slowest hundredth from %.1f us\n", calls,
              channel->info().connection.transport.c_str(), microseconds[calls / 2],
              microseconds[calls * 99 / 100]);
  return 0;
}

int Main(int argc, char** argv) {
  std::vector<std::string> words;
  size_t calls = 1000;
  std::chrono::seconds timeout{2};
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--calls" && i + 1 < argc) {
      calls = std::strtoul(argv[++i], nullptr, 10);
    } else if (std::string_view(argv[i]) == "--timeout" && i + 1 < argc) {
      timeout = std::chrono::seconds(std::atoi(argv[++i]));
    } else {
      words.emplace_back(argv[i]);
    }
  }
  if (words.empty() || words.size() > 2 || words[0].starts_with("--") || timeout.count() <= 0) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  return Run(words[0], words.size() == 2 ? words[1] : "hello", calls, timeout);
}

}  // namespace
}  // namespace farcall::services

int main(int argc, char** argv) { return farcall::services::Main(argc, argv); }
