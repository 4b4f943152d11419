#include "farcall/transports/faulty/faulty.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "farcall/tests/transports/conformance.h"
#include "farcall/tests/transports/conformance/arena.h"
#include "farcall/transports/loopback/loopback.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;

TransportUnderTest FaultyLoopback(FaultPlan plan, uint64_t seed) {
  const auto network = MakeLoopbackNetwork();
  return {.name = "loopback",
          .make =
              [=](TransportLimits limits) mutable {
                plan.limits = limits;
                return MakeFaultyTransport(
                    MakeLoopbackTransport({.network = network, .limits = limits}), plan, seed);
              },
          .listen_endpoint =
              [names = 0]() mutable {
                return ParseEndpoint("loopback://faulty-" + std::to_string(++names)).value();
              }};
}

TEST_CASE("with delays and on a slow wire, faulty keeps the transport's promises") {
  constexpr FaultPlan::Chance kDelay{.probability = 0.3, .least = {}, .most = milliseconds(2)};
  const FaultPlan plan{.connect = kDelay,
                       .send = kDelay,
                       .deliver = kDelay,
                       .done = kDelay,
                       .bytes_per_second = 1024 * MiB};
  RunTransportConformance(FaultyLoopback(plan, /*seed=*/1));
}

TEST_CASE("without faults, faulty keeps the transport's promises") {
  RunTransportConformance(FaultyLoopback({}, /*seed=*/1));
}

// ---- accidents: what a connection does survives whole, or the connection ends ----

struct Toll {
  size_t cut = 0, survived = 0;
};

// Mixed traffic both ways until all of it arrived or the connection ended; the arena and its peers
// check the promises.
void RunTraffic(const TransportUnderTest& subject, Layout layout, Toll& toll) {
  constexpr size_t kMessages = 30;
  ManualClock clock;
  Arena arena(subject, layout, {}, &clock);
  const Pair pair = arena.Connect();
  for (size_t i = 0; i < kMessages; ++i) {
    const size_t body = i % 5 == 2 ? 400 * KiB : i * 100;
    const Sent sent = pair.client.Send({.body = body});
    pair.server.Send({.body = body, .attachment = i});
    if (i % 7 == 3) pair.client.Withdraw(sent.ticket);
  }
  const auto settled = [&](const Peer& sender, const Peer& receiver) {
    return sender.closed().has_value() ||
           (sender.outcomes() == kMessages && receiver.received() + 5 >= kMessages);
  };
  CHECK(arena.RunUntil(
      [&] { return settled(pair.client, pair.server) && settled(pair.server, pair.client); }));
  if (pair.client.closed().has_value() || pair.server.closed().has_value()) {
    // Both ends hear of it, and neither has to be asked.
    CHECK(arena.RunUntil(
        [&] { return pair.client.closed().has_value() && pair.server.closed().has_value(); }));
    CHECK(pair.client.closed()->code() == absl::StatusCode::kUnavailable);
    CHECK(pair.server.closed()->code() == absl::StatusCode::kUnavailable);
    ++toll.cut;
  } else {
    ++toll.survived;
  }
  arena.Finish();
}

TEST_CASE("cut at random, each message is whole and once or the connection ends") {
  constexpr FaultPlan::Chance kDelay{.probability = 0.2, .least = {}, .most = milliseconds(5)};
  const FaultPlan plan{.send = kDelay,
                       .deliver = kDelay,
                       .done = kDelay,
                       .cut_on_send = 0.005,
                       .cut_on_receive = 0.005,
                       .cut_after = {0.2, milliseconds(0), milliseconds(20)}};
  Toll toll;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    INFO("seed=" << seed);
    RunTraffic(FaultyLoopback(plan, seed), seed % 2 == 0 ? Layout::kOneLoop : Layout::kTwoLoops,
               toll);
  }
  CHECK(toll.cut > 30);
  CHECK(toll.survived > 30);
}

TEST_CASE("the same seed gives the same accidents at the same moments") {
  constexpr FaultPlan::Chance kDelay{.probability = 0.5, .least = {}, .most = milliseconds(9)};
  const FaultPlan plan{.connect = kDelay,
                       .send = kDelay,
                       .deliver = kDelay,
                       .done = kDelay,
                       .bytes_per_second = 100 * MiB,
                       .cut_on_receive = 0.02};
  const auto run = [&](uint64_t seed) {
    ManualClock clock;
    const TransportUnderTest subject = FaultyLoopback(plan, seed);
    Arena arena(subject, Layout::kTwoLoops, {}, &clock);
    const Pair pair = arena.Connect();
    for (size_t i = 0; i < 40; ++i) {
      pair.client.Send({.body = i % 5 == 2 ? 400 * KiB : i * 100});
      pair.server.Send({.body = 10});
    }
    arena.RunFor(std::chrono::seconds(1));
    std::vector<std::string> history = pair.client.history();
    const std::vector<std::string> server = pair.server.history();
    history.insert(history.end(), server.begin(), server.end());
    arena.Finish();
    return history;
  };
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<std::string> first = run(seed);
    CHECK(first == run(seed));
    CHECK(first != run(seed + 100));
  }
}

// ---- one accident at a time ----

TEST_CASE("a refused connect names the plan and its seed") {
  const TransportUnderTest subject = FaultyLoopback({.refuse_connect = 1}, /*seed=*/77);
  Arena arena(subject, Layout::kOneLoop);
  Listener& listener = arena.Listen({&arena.server_loop()});
  Dial dial(arena, arena.client_loop(), listener.address());
  CHECK(dial.Wait().code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(dial.Wait().message()), Contains("seed 77"));
  CHECK_THAT(std::string(dial.Wait().message()), Contains(listener.address().ToString()));
}

TEST_CASE("a late connect keeps its deadline") {
  constexpr FaultPlan::Chance kLate{1, milliseconds(30), milliseconds(30)};
  ManualClock clock;
  const TransportUnderTest subject = FaultyLoopback({.connect = kLate}, /*seed=*/1);
  Arena arena(subject, Layout::kOneLoop, {}, &clock);
  const Endpoint address = arena.Listen({&arena.server_loop()}).address();
  const TimePoint start = clock.Now();
  Dial short_one(arena, arena.client_loop(), address, milliseconds(20));
  Dial long_one(arena, arena.client_loop(), address, milliseconds(40));
  CHECK(short_one.Wait().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(clock.Now() - start >= milliseconds(20));
  CHECK(clock.Now() - start <= milliseconds(22));
  CHECK(long_one.Wait().ok());
  CHECK(clock.Now() - start >= milliseconds(30));
}

TEST_CASE("cut at the n-th Send or Admit") {
  const bool on_send = GENERATE(true, false);
  size_t third_unsent = 0, third_received = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed=" << seed);
    const TransportUnderTest subject = FaultyLoopback(
        {.cut_at_send = on_send ? 3u : 0u, .cut_at_receive = on_send ? 0u : 3u}, seed);
    ManualClock clock;
    Arena arena(subject, Layout::kTwoLoops, {}, &clock);
    const Pair pair = arena.Connect();
    std::vector<Sent> sends;
    for (size_t i = 0; i < 4; ++i) {
      arena.RunFor(milliseconds(1));
      sends.push_back(pair.client.Send({.body = 100}));
    }
    REQUIRE(arena.RunUntil(
        [&] { return pair.client.closed().has_value() && pair.server.closed().has_value(); }));
    const Peer& cutter = on_send ? pair.client : pair.server;
    CHECK_THAT(std::string(cutter.closed()->message()),
               Contains("cut by the fault plan") && Contains("seed " + std::to_string(seed)));
    CHECK(pair.server.Received(sends[0].number));
    CHECK(pair.server.Received(sends[1].number));
    if (!pair.client.outcome(sends[2])->sent) ++third_unsent;
    if (pair.server.Received(sends[2].number)) ++third_received;
    arena.Finish();
  }
  // Every kind of cut occurs among the seeds.
  CHECK((third_unsent > 0) == on_send);
  CHECK(third_received > 0);
  CHECK(third_received < 40);
}

TEST_CASE("cut by its age") {
  ManualClock clock;
  const TransportUnderTest subject =
      FaultyLoopback({.cut_after = {1, milliseconds(50), milliseconds(50)}}, /*seed=*/1);
  Arena arena(subject, Layout::kOneLoop, {}, &clock);
  const Pair pair = arena.Connect();
  const TimePoint start = clock.Now();
  arena.RunFor(milliseconds(48));
  CHECK(!pair.client.closed().has_value());
  CHECK(arena.RunUntil([&] { return pair.client.closed() && pair.server.closed(); }));
  CHECK(clock.Now() - start <= milliseconds(52));
  arena.Finish();
}

TEST_CASE("each delay delays what it names") {
  constexpr FaultPlan::Chance kLate{1, milliseconds(30), milliseconds(30)};
  const auto [name, plan, event] = GENERATE_COPY(
      table<std::string, FaultPlan, std::string>({{"send", {.send = kLate}, "Admit 1"},
                                                  {"deliver", {.deliver = kLate}, "OnMessage 1"},
                                                  {"done", {.done = kLate}, "done 1"}}));
  INFO(name);
  ManualClock clock;
  const TransportUnderTest subject = FaultyLoopback(plan, /*seed=*/1);
  Arena arena(subject, Layout::kOneLoop, {}, &clock);
  const Pair pair = arena.Connect();
  pair.client.Send({.body = 100});
  const auto happened = [&, &event = event] {
    for (const Peer* peer : {&pair.client, &pair.server}) {
      for (const std::string& line : peer->history()) {
        if (line.find(event) != std::string::npos) return true;
      }
    }
    return false;
  };
  arena.RunFor(milliseconds(29));
  CHECK(!happened());
  CHECK(arena.RunUntil(happened, milliseconds(3)));
  arena.Finish();
}

TEST_CASE("a slow wire takes its time") {
  ManualClock clock;
  const TransportUnderTest subject = FaultyLoopback({.bytes_per_second = 1 * MiB}, /*seed=*/1);
  Arena arena(subject, Layout::kOneLoop, {}, &clock);
  const Pair pair = arena.Connect();
  const TimePoint start = clock.Now();
  const Sent large = pair.client.Send({.body = 2 * MiB});
  const Sent small = pair.client.Send({.body = 1 * KiB});
  CHECK(arena.RunUntil([&] { return pair.server.Received(small.number); }));
  CHECK(clock.Now() - start < milliseconds(10));  // not behind the large one
  CHECK(arena.RunUntil([&] { return pair.server.Received(large.number); }));
  CHECK(clock.Now() - start >= std::chrono::seconds(2));
  arena.Finish();
}

TEST_CASE("a whole message that is held back can still be abandoned") {
  constexpr FaultPlan::Chance kLate{1, milliseconds(30), milliseconds(30)};
  ManualClock clock;
  const TransportUnderTest subject = FaultyLoopback({.deliver = kLate}, /*seed=*/1);
  Arena arena(subject, Layout::kOneLoop, {}, &clock);
  const Pair pair = arena.Connect();
  const Sent sent = pair.client.Send({.body = 100});
  CHECK(arena.RunUntil([&] { return pair.client.outcome(sent).has_value(); }));
  pair.server.Abandon(1, absl::CancelledError("not any more"));
  CHECK(arena.RunUntil([&] { return pair.server.Abandoned(sent.number).has_value(); },
                       milliseconds(3)));
  arena.Finish();
}

TEST_CASE("a Send that is withdrawn ends soon, however late dones are") {
  constexpr FaultPlan::Chance kLate{1, milliseconds(500), milliseconds(500)};
  // Its done is late already; its payload is still on its way.
  const auto [name, body, turns] =
      GENERATE(table<std::string, size_t, int>({{"small", 100, 10}, {"large", 4 * MiB, 3}}));
  INFO(name);
  ManualClock clock;
  const TransportUnderTest subject = FaultyLoopback({.done = kLate}, /*seed=*/1);
  Arena arena(subject, Layout::kOneLoop, {}, &clock);
  const Pair pair = arena.Connect();
  const Sent sent = pair.client.Send({.body = body});
  arena.RunFor(milliseconds(turns));
  CHECK(!pair.client.outcome(sent).has_value());
  pair.client.Withdraw(sent.ticket);
  CHECK(arena.RunUntil([&] { return pair.client.outcome(sent).has_value(); }, milliseconds(20)));
  arena.Finish();
}

}  // namespace
}  // namespace farcall::testing
