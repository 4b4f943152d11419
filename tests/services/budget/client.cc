// budget_client ADDRESS busy|event FORM CALLS [COUNTER…]
//
// FORM: block|callback|awaitable, or block@N: blocking calls, N a second, and nothing in between.
// Makes CALLS small calls one after the other on a channel that has made some hundreds before, and
// prints by how much each counter (a file of bench/measure/malloc_count.cc, of whichever process)
// rose meanwhile. Right before and after them it calls getsid, a mark for whoever traces it.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include "echo.rpc.h"
#include "farcall/transports/dial.h"

namespace farcall::testing {
namespace {

constexpr size_t kWarmUp = 500;
constexpr std::string_view kText = "thirty-two bytes of text, always";

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "budget_client: %s\n", why.c_str());
  std::exit(1);
}

Builder<services::SayRequest> Request(services::Echo::Client& echo) {
  Builder<services::SayRequest> request = echo.NewSay();
  request.Finish(
      services::CreateSayRequest(request, request.CreateString(kText.data(), kText.size())));
  return request;
}

void Check(const absl::StatusOr<Msg<services::SayReply>>& reply) {
  if (!reply.ok()) Fail(reply.status().ToString());
  if ((*reply)->text()->size() != kText.size()) Fail("another text came back");
}

void CallBlocking(services::Echo::Client& echo, size_t calls) {
  for (size_t i = 0; i < calls; ++i) Check(echo.Say(Request(echo)));
}

// Between calls it looks at the clock, which is no system call.
void CallPaced(services::Echo::Client& echo, size_t calls, std::chrono::nanoseconds each) {
  auto next = std::chrono::steady_clock::now();
  for (size_t i = 0; i < calls; ++i) {
    while (std::chrono::steady_clock::now() < next) {
    }
    next += each;
    Check(echo.Say(Request(echo)));
  }
}

// Each reply's callback makes the next call.
class Chain {
 public:
  Chain(services::Echo::Client& echo, size_t calls) : echo_(echo), left_(calls) {}
  void Run() {
    Next();
    over_.get_future().get();
  }

 private:
  void Next() {
    if (left_-- == 0) return over_.set_value();
    echo_.AsyncSay(Request(echo_), {},
                   [this](const absl::StatusOr<Msg<services::SayReply>>& reply) {
                     Check(reply);
                     Next();
                   });
  }

  services::Echo::Client& echo_;
  size_t left_;
  std::promise<void> over_;
};

boost::asio::awaitable<void> Await(services::Echo::Client& echo, size_t calls) {
  for (size_t i = 0; i < calls; ++i) {
    Check(co_await echo.AsyncSay(Request(echo), {}, boost::asio::use_awaitable));
  }
}

std::function<void(size_t)> Maker(std::string_view form, const Channel& channel,
                                  services::Echo::Client& echo) {
  if (form == "block") return [&echo](size_t calls) { CallBlocking(echo, calls); };
  if (constexpr std::string_view kPaced = "block@"; form.starts_with(kPaced)) {
    const long rate = std::strtol(form.substr(kPaced.size()).data(), nullptr, 10);
    if (rate <= 0) Fail("calls of no rate");
    return [&echo, each = std::chrono::nanoseconds(std::chrono::seconds(1)) / rate](size_t calls) {
      CallPaced(echo, calls, each);
    };
  }
  if (form == "callback") return [&echo](size_t calls) { Chain(echo, calls).Run(); };
  if (form != "awaitable") Fail("unknown form of call");
  return [&echo, &channel](size_t calls) {
    boost::asio::co_spawn(channel.loop().executor(), Await(echo, calls), boost::asio::use_future)
        .get();
  };
}

const std::atomic<uint64_t>* MapCounter(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) Fail(std::string("no counter at ") + path);
  void* mapped = ::mmap(nullptr, sizeof(uint64_t), PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (mapped == MAP_FAILED) Fail(std::string("cannot map ") + path);
  return static_cast<const std::atomic<uint64_t>*>(mapped);
}

int Main(int argc, char** argv) {
  if (argc < 5) Fail("usage: budget_client ADDRESS busy|event FORM CALLS […]");
  const ProgressMode mode =
      std::string_view(argv[2]) == "busy" ? ProgressMode::kBusy : ProgressMode::kEvent;
  absl::StatusOr<Channel> channel = Dial(argv[1], {.mode = mode});
  if (!channel.ok()) Fail(channel.status().ToString());
  services::Echo::Client echo(*channel);
  Check(echo.Say(Request(echo), {.wait_for_ready = true}));
  const std::function<void(size_t)> make = Maker(argv[3], *channel, echo);
  std::vector<const std::atomic<uint64_t>*> counters;
  for (int i = 5; i < argc; ++i) counters.push_back(MapCounter(argv[i]));
  std::vector<uint64_t> before(counters.size());
  const auto rises = [&](size_t calls) {
    for (size_t i = 0; i < counters.size(); ++i) before[i] = counters[i]->load();
    ::getsid(0);
    make(calls);
    ::getsid(0);
    std::vector<int64_t> rise;
    for (size_t i = 0; i < counters.size(); ++i) {
      rise.push_back(static_cast<int64_t>(counters[i]->load() - before[i]));
    }
    return rise;
  };

  make(kWarmUp);
  rises(0);
  const std::vector<int64_t> form_alone = rises(0);  // what a form costs beside its calls
  const std::vector<int64_t> rise = rises(std::strtoul(argv[4], nullptr, 10));
  for (size_t i = 0; i < counters.size(); ++i) {
    std::printf("%lld ", static_cast<long long>(rise[i] - form_alone[i]));
  }
  std::printf("\n");
  return 0;
}

}  // namespace
}  // namespace farcall::testing

int main(int argc, char** argv) { return farcall::testing::Main(argc, argv); }
