// Peers of the engine that keep quiet where they should speak: what they can make it hold is
// bounded, what is sent to them ends, and nobody else waits.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "farcall/tests/transports/rdma/rogue.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;
using rdma::Kind;
using std::chrono::seconds;

// A message of `bytes` that are never touched: nothing but address space.
Sent SendUntouched(Peer& peer, uint64_t number, size_t bytes) {
  Message message;
  message.head.Resize(8);
  message.body = peer.pool()->Allocate(bytes).value();
  return peer.Send(std::move(message), number);
}

TEST_CASE("a peer that never gives credits back holds up its own messages only") {
  ShmOptions options;
  options.rdma.limits.max_queued_messages = 200;
  Scene scene(options);
  Rogue rogue(scene.arena);
  Peer& victim = Meet(scene.arena, scene.client, rogue);
  rogue.reposts = false;
  size_t refused = 0;
  victim.hooks.done = [&](Ticket, SendResult& result) {
    if (result.status.code() == absl::StatusCode::kResourceExhausted && !result.sent) ++refused;
  };
  for (int i = 0; i < 1000; ++i) victim.Send({.body = 50});
  REQUIRE(rogue.RunUntil([&] { return rogue.heard() == 63; }));
  scene.arena.RunFor(kQuiet);
  rogue.Turn();
  // All receives but the last, which is for a CREDIT.
  CHECK(rogue.heard() == 63);
  CHECK(CountersOf(victim).sends == 63);
  CHECK(refused == 1000 - 63 - 200);
  CHECK(victim.info().counters.queued_messages == 200);
  scene.arena.ExpectAlive(scene.pair);
  victim.Close(absl::DeadlineExceededError("no answer to PING"));
  CHECK(rogue.RunUntil([&] { return victim.closed().has_value(); }));
  CHECK(victim.outcomes() == 1000);
  CHECK(rogue.RunUntil([&] { return rogue.gone(); }));
  CHECK(scene.arena.RunUntil([&] { return victim.pool()->stats().leased_bytes == 0; }));
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

TEST_CASE("a peer that never answers an RTS is left once too much waits for it") {
  Scene scene;
  Rogue rogue(scene.arena);
  Peer& victim = Meet(scene.arena, scene.client, rogue);
  constexpr size_t kBytes = size_t{60} << 20;
  constexpr size_t kSends = 5;  // more than kMaxZombieBytes
  static_assert(kSends * kBytes > rdma::kMaxZombieBytes);
  std::vector<Sent> sends;
  for (size_t i = 1; i <= kSends - 1; ++i) {
    sends.push_back(SendUntouched(victim, i, kBytes));
    rogue.Hear(Kind::kRts);
    victim.Withdraw(sends.back().ticket);
    rogue.Hear(Kind::kCancel);
    CHECK(victim.outcome(sends.back())->status.code() == absl::StatusCode::kCancelled);
  }
  // Four are within the bound: the peer may still read them.
  scene.arena.RunFor(2 * rdma::kZombieCheck);
  CHECK(!victim.closed().has_value());
  CHECK(victim.pool()->stats().leased_bytes >= 4 * kBytes);
  scene.arena.ExpectAlive(scene.pair);
  sends.push_back(SendUntouched(victim, kSends, kBytes));
  rogue.Hear(Kind::kRts);
  victim.Withdraw(sends.back().ticket);
  REQUIRE(rogue.RunUntil([&] { return victim.closed().has_value(); }));
  CHECK(victim.closed()->code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(victim.closed()->message()),
             Contains("has not said that it is done with 5 payloads") &&
                 Contains(victim.info().peer_address));
  CHECK(scene.arena.RunUntil([&] { return victim.pool()->stats().leased_bytes == 0; }));
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

TEST_CASE("a peer that never answers an RTS is left once it waited too long") {
  ManualClock clock;
  const TransportUnderTest subject = ShmSubject({});
  Arena arena(subject, Layout::kTwoLoops, {}, &clock);
  const Pair pair = arena.Connect();
  Rogue rogue(arena);
  Peer& victim = Meet(arena, pair.client, rogue);
  const Sent sent = victim.Send({.body = 100'000});
  rogue.Hear(Kind::kRts);
  // One that nobody gave up may take as long as it likes.
  arena.RunFor(2 * rdma::kMaxZombieAge);
  CHECK(!victim.closed().has_value());
  CHECK(!victim.outcome(sent).has_value());
  victim.Withdraw(sent.ticket);
  const TimePoint since = clock.Now();
  arena.RunFor(rdma::kMaxZombieAge - seconds(1));
  CHECK(victim.outcome(sent)->status.code() == absl::StatusCode::kCancelled);
  CHECK(!victim.closed().has_value());
  CHECK(victim.pool()->stats().leased_bytes > 0);
  CHECK(arena.RunUntil([&] { return victim.closed().has_value(); }, seconds(60)));
  CHECK(clock.Now() - since < rdma::kMaxZombieAge + seconds(2));
  CHECK_THAT(std::string(victim.closed()->message()), Contains("that was given up"));
  CHECK(arena.RunUntil([&] { return victim.pool()->stats().leased_bytes == 0; }));
  arena.ExpectAlive(pair);
  arena.Finish();
}

TEST_CASE("a peer takes no more transfers at once than it said") {
  Scene scene;
  Rogue rogue(scene.arena);
  rogue.Connect(NameOf(scene.client),
                rdma::EncodeParameters({.receive_bytes = 16 << 10, .max_transfers = 3}));
  rogue.Await(rdma::ConnectionEvent::Kind::kEstablished);
  rogue.Say({.kind = Kind::kCredit});
  Peer& victim = scene.arena.Accepted();
  for (int i = 0; i < 10; ++i) victim.Send({.body = 100'000});
  uint32_t last = 0;
  for (int i = 0; i < 3; ++i) last = rogue.Hear(Kind::kRts).transfer;
  scene.arena.RunFor(kQuiet);
  rogue.Turn();
  CHECK(rogue.heard() == 0);
  CHECK(CountersOf(victim).rendezvous_messages == 3);
  // Each answer makes room for one, in any order.
  for (int i = 0; i < 7; ++i) {
    rogue.Say({.kind = Kind::kFin, .transfer = last});
    last = rogue.Hear(Kind::kRts).transfer;
  }
  CHECK(last == 10);
  victim.Close(absl::CancelledError("enough"));
  CHECK(scene.arena.RunUntil([&] { return victim.outcomes() == 10; }));
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

// Its device takes nothing: its process stands still, or its program never polls.
TEST_CASE("a peer that never reads holds up neither the end of its connection nor others") {
  const bool large = GENERATE(false, true);
  ManualClock clock;
  const TransportUnderTest subject = ShmSubject({});
  Arena arena(subject, Layout::kTwoLoops, {}, &clock);
  const Pair pair = arena.Connect();
  Rogue rogue(arena);
  Peer& victim = Meet(arena, pair.client, rogue);
  for (int i = 0; i < 300; ++i) victim.Send({.body = large ? size_t{20'000} : size_t{2000}});
  arena.RunFor(seconds(1));
  CHECK(CountersOf(victim).sends <= 64);
  arena.ExpectAlive(pair);
  const TimePoint since = clock.Now();
  victim.Close(absl::DeadlineExceededError("no answer to PING"));
  CHECK(arena.RunUntil([&] { return victim.closed().has_value() && victim.outcomes() == 300; }));
  CHECK(arena.RunUntil([&] { return victim.pool()->stats().leased_bytes == 0; }));
  CHECK(clock.Now() - since < rdma::kLinger + seconds(1));
  arena.ExpectAlive(pair);
  arena.Finish();
}

// What arrives costs the engine an answer that the peer does not take.
TEST_CASE("a peer that offers and never takes the FINs is held to its transfers") {
  ShmOptions options;
  options.rdma.limits.max_transfers = 16;
  Scene scene(options);
  Rogue rogue(scene.arena);
  Peer& victim = Meet(scene.arena, scene.client, rogue);
  rogue.reposts = false;
  uint32_t transfer = 0;
  const auto offer = [&] { rogue.Say(rogue.Offer(++transfer, 100)); };
  // As long as there are credits for FINs, offers are read and answered.
  while (transfer < 63) {
    const size_t before = rogue.heard();
    offer();
    REQUIRE(rogue.RunUntil([&] { return rogue.heard() > before; }));
  }
  // Then they wait, and so do the offers that are allowed.
  for (uint32_t i = 0; i < 16; ++i) offer();
  REQUIRE(rogue.RunUntil([&] { return victim.received() == 63 + 16; }));
  CHECK(!victim.closed().has_value());
  offer();
  REQUIRE(rogue.RunUntil([&] { return victim.closed().has_value(); }));
  CHECK_THAT(std::string(victim.closed()->message()), Contains("at most 16 RTS are without a FIN"));
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

}  // namespace
}  // namespace farcall::testing
