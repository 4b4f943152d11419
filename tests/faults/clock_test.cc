// Clocks that jump. The wall clock is replaced for all of this process, the library included, by
// one that the test sets; the steady clock is the machine's.

#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/rpc/probe.h"
#include "farcall/tests/transports/tcp/raw_socket.h"
#include "farcall/transports/dial.h"

namespace farcall::faults {
namespace {

std::atomic<int64_t> wall_offset_s{0};
std::atomic<int> wall_readings{0};  // since the test looked last
// Waits and timers that would follow the wall clock when it is set: the kernel's own, which a
// replaced reading does not move.
std::atomic<int> wall_waits{0};

bool IsWall(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ||
         clock == CLOCK_REALTIME_ALARM || clock == CLOCK_TAI;
}

int ReadClock(clockid_t clock, timespec* time) {
  const long result = ::syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && IsWall(clock)) {
    ++wall_readings;
    time->tv_sec += wall_offset_s.load();
  }
  return static_cast<int>(result);
}

}  // namespace
}  // namespace farcall::faults

// These stand before the C library's for every caller in the process.
extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  return farcall::faults::ReadClock(clock, time);
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  farcall::faults::ReadClock(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* result) noexcept {
  timespec now{};
  farcall::faults::ReadClock(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}

int timerfd_create(int clock, int flags) noexcept {
  if (farcall::faults::IsWall(clock)) ++farcall::faults::wall_waits;
  return static_cast<int>(::syscall(SYS_timerfd_create, clock, flags));
}

}  // extern "C"

namespace farcall::faults {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Eventually;

// Sets the wall clock again and again, hours ahead and hours back.
class JumpingWall {
 public:
  JumpingWall()
      : thread_([this] {
          for (int64_t jump = 1; !stop_; ++jump) {
            wall_offset_s = (jump % 2 == 0 ? -1 : 1) * (jump % 13) * 3600;
            std::this_thread::sleep_for(milliseconds(2));
          }
        }) {}
  ~JumpingWall() {
    stop_ = true;
    thread_.join();
    wall_offset_s = 0;
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_CASE("the wall clock of this test does jump") {
  const auto before = std::chrono::system_clock::now();
  wall_offset_s = 3600;
  CHECK(std::chrono::system_clock::now() - before > hours(1));
  CHECK(::time(nullptr) > std::chrono::system_clock::to_time_t(before) + 3000);
  wall_offset_s = -7200;
  CHECK(std::chrono::system_clock::now() < before);
  wall_offset_s = 0;
}

TEST_CASE("clock steps: the wall clock jumps by hours, and no deadline fires early or late") {
  const hostile::LogLines log;
  const KeepaliveOptions keepalive{.handshake_timeout = seconds(20),
                                   .ping_after = milliseconds(50),
                                   .ping_timeout = seconds(20)};
  hostile::Ground ground({.keepalive = keepalive});
  auto channel = Dial(ground.endpoint.ToString(), {.keepalive = keepalive});
  REQUIRE(channel.ok());
  testing::Probe::Client client(*channel);
  REQUIRE(client.Object(testing::AskT()).ok());
  const JumpingWall jumping;
  wall_readings = 0;

  std::atomic<int> ended{0}, early{0}, wrong{0};
  const TimePoint start = Clock::Steady().Now();
  constexpr int kCalls = 200;
  testing::AskT ask;
  ask.number = 60'000;  // ms: nobody answers before the deadline
  for (int i = 0; i < kCalls; ++i) {
    const Duration timeout = milliseconds(5 * (i + 1));
    client.AsyncWait(ask, {.timeout = timeout},
                     [&, timeout](const absl::StatusOr<Msg<testing::Answer>>& reply) {
                       early += Clock::Steady().Now() - start < timeout;
                       wrong += !absl::IsDeadlineExceeded(reply.status());
                       ++ended;
                     });
  }
  // Beside them, blocking calls of a second whose deadline is far: none is cut short.
  ask.number = 1000;
  CHECK(client.Wait(ask, {.timeout = seconds(30)}).status() == absl::OkStatus());
  CHECK(Eventually([&] { return ended == kCalls; }, seconds(30)));
  CHECK(early == 0);
  CHECK(wrong == 0);
  CHECK(Eventually([&] { return ground.probe.cancelled >= kCalls; }));  // the server's side
  CHECK(channel->info().stats.connects == 1);  // and keepalive took nobody for dead
  CHECK(ground.healthy->Trouble() == "");
  // All of it without a look at the wall clock, or a timer that follows it.
  CHECK(wall_readings == 0);
  CHECK(wall_waits == 0);
}

TEST_CASE("clock steps: backoff and connecting do not follow the wall clock") {
  const hostile::LogLines log;
  const JumpingWall jumping;
  const auto silent = tcp::testing::RawSocket::Listen(*ParseEndpoint("tcp://127.0.0.1:0"));
  auto channel = Dial(silent.address().ToString(),
                      {.backoff = {.first = milliseconds(20), .max = milliseconds(20)},
                       .keepalive = {.handshake_timeout = milliseconds(100)}});
  REQUIRE(channel.ok());
  wall_readings = 0;
  const TimePoint start = Clock::Steady().Now();
  const auto late = testing::Probe::Client(*channel).Object(
      testing::AskT(), {.timeout = seconds(1), .wait_for_ready = true});
  CHECK(absl::IsDeadlineExceeded(late.status()));
  CHECK(Clock::Steady().Now() - start >= seconds(1));
  const uint64_t attempts = channel->info().stats.connect_failures;
  CHECK(attempts >= 2);
  CHECK(attempts <= 10);
  CHECK(wall_waits == 0);
  CHECK(wall_readings <= static_cast<int>(attempts));
}

// ---- the steady clock: it may stand still, with the machine, and then be an hour ahead ----

TEST_CASE("a suspended machine: deadlines that passed end once, connections live on") {
  const hostile::LogLines log;
  ManualClock clock;
  const auto loop =
      std::make_shared<EventLoop>(EventLoopOptions{.clock = &clock, .helper_thread = false});
  const auto turns = [&](const auto& done) {
    for (int i = 0; i < 1000 && !done(); ++i) loop->RunOnce();
    return done();
  };
  const testing::Stage stage({.external_loops = {loop}});
  {
    const Channel channel = stage.Dial({.loop = loop});
    testing::Probe::Client client(channel);
    testing::AskT ask;
    ask.number = 3'600'000;  // ms: longer than this test
    for (int round = 1; round <= 5; ++round) {
      int passed = 0, far = 0, answered = 0;
      absl::Status how;
      const int ran = stage.probe.ran;
      for (int i = 0; i < 10; ++i) {
        client.AsyncWait(ask, {.timeout = std::chrono::minutes(1 + i)},
                         [&](const absl::StatusOr<Msg<testing::Answer>>& reply) {
                           how = reply.status();
                           ++passed;
                         });
      }
      asio::cancellation_signal cancel;
      client.AsyncWait(ask, {.timeout = hours(3)},
                       asio::bind_cancellation_slot(
                           cancel.slot(), [&](const absl::StatusOr<Msg<testing::Answer>>& reply) {
                             far += absl::IsCancelled(reply.status());
                           }));
      REQUIRE(turns([&] { return stage.probe.ran == ran + 11; }));
      REQUIRE(passed == 0);

      clock.Advance(hours(1));
      REQUIRE(turns([&] { return passed == 10; }));
      CHECK(absl::IsDeadlineExceeded(how));
      // Keepalive asks before it judges, and is answered.
      for (int i = 0; i < 5; ++i) {
        turns([] { return false; });
        clock.Advance(seconds(5));
      }
      CHECK(passed == 10);
      CHECK(far == 0);
      client.AsyncObject(
          testing::AskT(), {.timeout = seconds(5)},
          [&](const absl::StatusOr<Msg<testing::Answer>>& reply) { answered += reply.ok(); });
      CHECK(turns([&] { return answered == 1; }));
      loop->Post([&] { cancel.emit(asio::cancellation_type::all); });
      CHECK(turns([&] { return far == 1; }));
      CHECK(turns([&] { return stage.probe.cancelled == 11 * round; }));
    }
    CHECK(channel.info().stats.connects == 1);
  }
  turns([] { return false; });
}

}  // namespace
}  // namespace farcall::faults
