// What is said of connections: who came, who went, who was refused and who drained, and why.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/rpc/log.h"
#include "farcall/rpc/mutex.h"
#include "farcall/tests/rpc/scripted.h"

namespace farcall::testing {
namespace {

using std::chrono::seconds;

// What is logged from `minimum` on, while it lives.
class Lines {
 public:
  explicit Lines(LogLevel minimum) {
    SetLogSink(
        [this](LogLevel level, std::string_view line) {
          MutexLock lock(mutex_);
          lines_.emplace_back(level, line);
        },
        minimum);
  }
  ~Lines() { SetLogSink({}, LogLevel::kWarning); }

  // How many lines of `level` have all of `texts`.
  size_t Count(LogLevel level, const std::vector<std::string>& texts) const {
    MutexLock lock(mutex_);
    return static_cast<size_t>(std::count_if(lines_.begin(), lines_.end(), [&](const auto& line) {
      return line.first == level &&
             std::all_of(texts.begin(), texts.end(), [&](const std::string& text) {
               return line.second.find(text) != std::string::npos;
             });
    }));
  }
  size_t size() const {
    MutexLock lock(mutex_);
    return lines_.size();
  }
  std::string all() const {
    MutexLock lock(mutex_);
    std::string all;
    for (const auto& line : lines_) all += line.second + "\n";
    return all;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> lines_ ABSL_GUARDED_BY(mutex_);
};

struct Served : World {
  explicit Served(ServerOptions options = {}) {
    options.external_loops = {loop};
    server = std::make_unique<Server>(std::move(options));
    REQUIRE(server->Add(Probe::Bind(probe)).ok());
    REQUIRE(server->Listen(transport, endpoint).ok());
  }
  ~Served() {
    std::atomic<bool> gone{false};
    std::thread ending([&] {
      server.reset();
      gone = true;
    });
    while (!gone) Turn();
    ending.join();
    Settle();
  }

  Channel Dial() {
    Channel channel(transport, endpoint, {.loop = loop});
    Settle();
    return channel;
  }

  ProbeImpl probe;
  std::unique_ptr<Server> server;
};

constexpr char kServer[] = "loopback://world";
constexpr char kClient[] = "loopback://world#";  // and a number

TEST_CASE("who comes, goes and drains is said on both sides, with the peer and the reason") {
  const Lines lines(LogLevel::kInfo);
  Served world;
  {
    const Channel channel = world.Dial();
    CHECK(lines.Count(LogLevel::kInfo, {"server: connection from ", kClient}) == 1);
    CHECK(lines.Count(LogLevel::kInfo, {"channel: connected to ", kServer}) == 1);
  }
  world.Settle();
  CHECK(lines.Count(LogLevel::kInfo, {"server: connection of ", kClient,
                                      " ended: ", "the channel was closed"}) == 1);
  CHECK(lines.Count(LogLevel::kInfo, {"channel: the connection to ", kServer,
                                      " ended: the channel was closed"}) == 1);

  const Channel channel = world.Dial();
  world.server->Drain();
  CHECK(lines.Count(LogLevel::kInfo, {"server: draining", "1 connections are open, 0 calls run"}) ==
        1);
  world.Settle();
  CHECK(lines.Count(LogLevel::kInfo, {"server: told ", kClient, " that it drains"}) == 1);
  CHECK(lines.Count(LogLevel::kInfo, {"channel: ", kServer, " drains"}) == 1);
  CHECK(lines.Count(LogLevel::kInfo, {"channel: the connection to ", kServer, " ended: drained"}) ==
        1);
  INFO(lines.all());
  // Nothing of it is for somebody to look at, but that the server cannot be reached any more.
  CHECK(lines.Count(LogLevel::kWarning, {}) ==
        lines.Count(LogLevel::kWarning, {"channel: ", "trying again"}));
}

TEST_CASE("a connection that is refused is a warning on both sides") {
  const Lines lines(LogLevel::kWarning);
  Served world({.max_connections = 1});
  const Channel first = world.Dial();
  CHECK(lines.size() == 0);
  const Channel second = world.Dial();
  CHECK(lines.Count(LogLevel::kWarning,
                    {"server: refused ", kClient, "(ServerOptions::max_connections)"}) ==
        world.server->stats().connections_refused);
  CHECK(lines.Count(LogLevel::kWarning, {"server: "}) ==
        world.server->stats().connections_refused);  // one each
  CHECK(lines.Count(LogLevel::kWarning,
                    {"channel: ", kServer, "max_connections", "trying again"}) >= 1);
}

TEST_CASE("a call to a server with no room for the connection was not sent") {
  Served world({.max_connections = 1});
  const Channel first = world.Dial();
  Channel second = world.Dial();
  Probe::Client client(second);
  absl::Status ended;
  client.AsyncDo(Asking(client, ""), {},
                 [&](const absl::StatusOr<Msg<Answer>>& reply) { ended = reply.status(); });
  world.Settle();
  INFO(ended);
  CHECK(absl::IsResourceExhausted(ended));
  CHECK(OutcomeOf(ended) == Outcome::kNotSent);
}

TEST_CASE("a handler that throws or replies nothing is a warning of its server, with the caller") {
  const Lines lines(LogLevel::kWarning);
  Served world;
  Channel channel = world.Dial();
  Probe::Client client(channel);
  const auto ask = [&](const std::string& what) {
    client.AsyncDo(Asking(client, what), {}, [](const absl::StatusOr<Msg<Answer>>&) {});
    world.Settle();
  };
  ask("throw");
  CHECK(lines.Count(LogLevel::kWarning, {"server: the handler of ", "Probe/Do threw: ",
                                         "thrown by the test", "called by ", kClient}) == 1);
  ask("no_reply");
  CHECK(lines.Count(LogLevel::kWarning,
                    {"server: the handler of ", "without a reply", "called by ", kClient}) == 1);
  ask("fine");
  CHECK(lines.size() == 2);
  for (int i = 0; i < 1000; ++i) ask("throw");
  CHECK(lines.size() < 2 + 2 * LogThrottle::kBurst);
}

TEST_CASE("a refused call is said for those who look closely") {
  const Lines lines(LogLevel::kDebug);
  Served world;
  Channel channel = world.Dial();
  Probe::Client client(channel);
  world.server->Drain();  // before the channel hears of it
  client.AsyncDo(Asking(client, "late"), {}, [](const absl::StatusOr<Msg<Answer>>&) {});
  world.Settle();
  INFO(lines.all());
  CHECK(lines.Count(LogLevel::kDebug,
                    {"server: refused a call of ", kClient, "farcall.testing.Probe/Do",
                     "UNAVAILABLE: the server is shutting down"}) == 1);
}

TEST_CASE("an ordinary crowd says nothing unless it is asked to") {
  const Lines lines(LogLevel::kWarning);
  Served world;
  for (int i = 0; i < 200; ++i) {
    const Channel passing = world.Dial();
    world.Settle();
  }
  world.Settle();
  INFO(lines.all());
  CHECK(lines.size() == 0);
}

TEST_CASE("a flood of refusals does not become a flood of lines") {
  const Lines lines(LogLevel::kWarning);
  LogThrottle throttle;
  ManualClock clock;
  for (int i = 0; i < 10'000; ++i) throttle.Warn(clock.Now(), "refused");
  CHECK(lines.size() == LogThrottle::kBurst);
  clock.Advance(seconds(1));
  for (int i = 0; i < 10'000; ++i) throttle.Warn(clock.Now(), "refused");
  CHECK(lines.size() == LogThrottle::kBurst + LogThrottle::kPerSecond);
  CHECK(lines.Count(LogLevel::kWarning, {"refused (9900 lines like this one were left out)"}) == 1);
  clock.Advance(std::chrono::hours(1));
  for (int i = 0; i < 10'000; ++i) throttle.Warn(clock.Now(), "refused");
  CHECK(lines.size() == 2 * LogThrottle::kBurst + LogThrottle::kPerSecond);
}

}  // namespace
}  // namespace farcall::testing
