// Durations of any length, wherever they are taken.

#include "farcall/rpc/clock.h"

#include <catch2/catch.hpp>

#include "farcall/tests/rpc/probe.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kForEver = Duration::max();
constexpr Duration kLongAgo = Duration::min();

TEST_CASE("a sum of time never overflows") {
  const TimePoint now(seconds(1000));
  CHECK(After(now, seconds(1)) == now + seconds(1));
  CHECK(After(now, -seconds(1)) == now - seconds(1));
  CHECK(After(now, Duration::zero()) == now);
  CHECK(After(now, kForEver) == TimePoint::max());
  CHECK(After(TimePoint::max(), kForEver) == TimePoint::max());
  CHECK(After(TimePoint::max(), Duration(1)) == TimePoint::max());
  CHECK(After(TimePoint::max() - Duration(1), Duration(1)) == TimePoint::max());
  CHECK(After(TimePoint::max(), kLongAgo) == TimePoint::max() + kLongAgo);
  CHECK(After(TimePoint(), kForEver) == TimePoint::max());
  CHECK(After(TimePoint(), kLongAgo) == TimePoint::min());
  CHECK(After(-now.time_since_epoch() + TimePoint(), kLongAgo) == TimePoint::min());
  CHECK(After(TimePoint::min(), kForEver) == TimePoint(Duration(-1)));
  CHECK(After(now, kLongAgo) == now + kLongAgo);
}

constexpr KeepaliveOptions kPatient = {.handshake_timeout = kForEver,
                                       .ping_after = kForEver,
                                       .ping_timeout = kForEver,
                                       .stall_timeout = kForEver};

TEST_CASE("who waits for ever is not late at once") {
  Stage stage({.keepalive = kPatient});
  const Channel channel = stage.Dial({.default_timeout = kForEver,
                                      .connect_timeout = kForEver,
                                      .backoff = {.first = kForEver, .max = kForEver, .jitter = 5},
                                      .keepalive = kPatient});
  Probe::Client client(channel);
  AskT ask;
  CHECK(client.Object(ask).ok());
  CHECK(client.Object(ask, {.timeout = kForEver}).ok());
  CHECK(absl::IsDeadlineExceeded(client.Object(ask, {.timeout = kLongAgo}).status()));
  CHECK(channel.info().stats.connects == 1);
  CHECK(stage.server->Shutdown(kForEver).ok());
}

TEST_CASE("a pause for ever is one, whatever the jitter") {
  Stage stage;
  stage.server.reset();
  const Channel channel =
      stage.Dial({.backoff = {.first = kForEver, .max = kForEver, .jitter = 5}});
  REQUIRE(Eventually([&] { return channel.info().stats.connect_failures == 1; }));
  std::this_thread::sleep_for(milliseconds(20));
  CHECK(channel.info().stats.connect_failures == 1);
}

}  // namespace
}  // namespace farcall::testing
