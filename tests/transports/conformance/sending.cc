// Sending: bounded queues, and taking back what still waits.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "farcall/tests/transports/conformance/cases.h"

namespace farcall::testing {
namespace {

void SendBeforeStart(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.Start();
  const Sent small = pair.client.Send({.body = 100});
  const Sent large = pair.client.Send({.body = 200 * KiB});
  CHECK(arena.RunUntil(
      [&] { return pair.server.Received(small.number) && pair.server.Received(large.number); }));
  pair.client.Start();
  arena.ExpectAlive(pair);
}

void CallbacksMaySend(Arena& arena) {
  constexpr size_t kRounds = 500;
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.message = [&](Ticket, Message&) { pair.server.Send({.body = 64}); };
  pair.client.hooks.message = [&](Ticket ticket, Message&) {
    if (ticket < kRounds) pair.client.Send({.body = 64});
  };
  pair.client.Start();
  pair.server.Start();
  pair.client.Send({.body = 64});
  CHECK(arena.RunUntil([&] { return pair.client.received() == kRounds; }));
}

void DoneMaySend(Arena& arena) {
  constexpr size_t kRounds = 500;
  const Pair pair = arena.Connect(/*start=*/false);
  pair.client.hooks.done = [&](Ticket ticket, SendResult&) {
    if (ticket < kRounds) pair.client.Send({.body = 64});
  };
  pair.client.Start();
  pair.server.Start();
  pair.client.Send({.body = 64});
  CHECK(arena.RunUntil([&] { return pair.server.received() == kRounds; }));
}

void DoneMayBeEmpty(Arena& arena) {
  const Pair pair = arena.Connect();
  pair.client.SendAndForget({.body = 100});
  pair.client.SendAndForget({.body = 300 * KiB});
  CHECK(arena.RunUntil([&] { return pair.server.received() == 2; }));
  arena.ExpectAlive(pair);
}

// ---- Withdraw ----

void WithdrawnInTheSameTurn(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  std::vector<std::pair<Message, uint64_t>> returned;  // touched on the loop, then by us
  pair.client.hooks.done = [&](Ticket ticket, SendResult& result) {
    if (!result.sent) returned.emplace_back(std::move(result.message), ticket);
  };
  pair.client.Start();
  pair.server.Start();
  Sent small, large;
  pair.client.Do([&] {
    pair.client.Send({.body = 10});
    large = pair.client.Send({.body = 300 * KiB, .attachment = 1 * MiB});
    small = pair.client.Send({.head = 200, .body = 1000, .attachment = 10});  // behind the other
    pair.client.Withdraw(large.ticket);
    pair.client.Withdraw(small.ticket);
  });
  REQUIRE(arena.RunUntil([&] { return pair.client.outcomes() == 3; }));
  for (Sent sent : {small, large}) {
    CHECK(pair.client.outcome(sent)->status.code() == absl::StatusCode::kCancelled);
    CHECK(!pair.client.outcome(sent)->sent);
  }
  // What came back can be sent again as it is (Peer has checked its bytes).
  REQUIRE(returned.size() == 2);
  std::sort(returned.begin(), returned.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  for (auto& [message, number] : returned) pair.client.Send(std::move(message), number);
  CHECK(arena.RunUntil([&] { return pair.server.received() == 3; }));
  arena.ExpectAlive(pair);
}

void WithdrawnOnItsWay(Arena& arena) {
  const Pair pair = arena.Connect();
  for (const Parts parts : {Parts{.body = kHuge}, Parts{.body = 10, .attachment = kHuge}}) {
    const Sent sent = pair.client.Send(parts);
    REQUIRE(arena.RunUntil([&] { return pair.server.TicketOf(sent.number) != 0; }));
    pair.client.Withdraw(sent.ticket);
    REQUIRE(arena.RunUntil([&] { return pair.client.outcome(sent).has_value(); }));
    const Outcome outcome = *pair.client.outcome(sent);
    CHECK(outcome.sent);
    // With threads it may have been too late; but the receiver is never left waiting.
    CHECK((outcome.status.ok() || outcome.status.code() == absl::StatusCode::kCancelled));
    CHECK(arena.RunUntil([&] {
      return pair.server.Received(sent.number) || pair.server.Abandoned(sent.number).has_value();
    }));
    if (arena.layout() != Layout::kThreads) CHECK(!pair.server.Received(sent.number));
    arena.ExpectAlive(pair);
  }
}

void WithdrawnAtAnyTime(Arena& arena) {
  const Pair pair = arena.Connect();
  constexpr size_t kMessages = 60;
  std::vector<Sent> sends;
  for (size_t i = 0; i < kMessages; ++i) {
    sends.push_back(pair.client.Send({.body = i % 3 == 0 ? 1000 : 700 * KiB}));
    // A turn, two, … after it was sent.
    if (i % 2 == 1) pair.client.Withdraw(sends[i - std::min<size_t>(i, i % 7)].ticket);
  }
  CHECK(arena.RunUntil([&] { return pair.client.outcomes() == kMessages; }));
  arena.ExpectAlive(pair);
  for (Sent sent : sends) {
    const Outcome outcome = *pair.client.outcome(sent);
    if (outcome.status.ok()) {
      CHECK(arena.RunUntil([&] { return pair.server.Received(sent.number); }));
    } else {
      CHECK(outcome.status.code() == absl::StatusCode::kCancelled);
    }
  }
}

void WithdrawOfWhatIsNotThere(Arena& arena) {
  const Pair pair = arena.Connect();
  const Sent sent = pair.client.Send({.body = 100});
  CHECK(arena.RunUntil([&] { return pair.client.outcome(sent).has_value(); }));
  for (Ticket ticket : {Ticket{0}, sent.ticket, sent.ticket + 1, ~Ticket{0}}) {
    pair.client.Withdraw(ticket);
    pair.client.Withdraw(ticket);
  }
  Sent twice;
  pair.client.Do([&] {
    twice = pair.client.Send({.body = 100});
    pair.client.Withdraw(twice.ticket);
    pair.client.Withdraw(twice.ticket);
  });
  CHECK(arena.RunUntil([&] { return pair.client.outcome(twice).has_value(); }));
  arena.ExpectAlive(pair);
}

// ---- full queues ----

constexpr TransportLimits kTight{.max_queued_bytes = 1 * MiB, .max_queued_messages = 64};

bool IsFull(const Outcome& outcome) {
  return outcome.status.code() == absl::StatusCode::kResourceExhausted && !outcome.sent;
}

void AFullQueueRefusesUnsent(Arena& arena) {
  const Pair pair = arena.Connect();
  std::vector<Sent> sends;
  pair.client.Do([&] {
    for (size_t i = 0; i < 80; ++i) sends.push_back(pair.client.Send({.body = 10}));
  });
  REQUIRE(arena.RunUntil([&] { return pair.client.outcomes() == sends.size(); }));
  for (size_t i = 0; i < sends.size(); ++i) {
    const Outcome outcome = *pair.client.outcome(sends[i]);
    // So many may leave in parts before the turn ends, and then more of them fit.
    CHECK((outcome.status.ok() || (i >= kTight.max_queued_messages && IsFull(outcome))));
  }
  arena.ExpectAlive(pair);
}

void ALargeMessageMayWaitAlone(Arena& arena) {
  const Pair pair = arena.Connect();
  Sent large, refused;
  pair.client.Do([&] {
    large = pair.client.Send({.body = 4 * MiB});
    refused = pair.client.Send({.body = 100'000});  // for small ones there may be room beside it
  });
  REQUIRE(arena.RunUntil([&] { return pair.client.outcomes() == 2; }));
  CHECK(pair.client.outcome(large)->status.ok());
  CHECK(IsFull(*pair.client.outcome(refused)));
  CHECK(arena.RunUntil([&] { return pair.server.Received(large.number); }));
  arena.ExpectAlive(pair);
}

void APeerThatDoesNotReadFillsTheQueue(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  std::atomic<size_t> refused = 0;
  pair.client.hooks.done = [&](Ticket, SendResult& result) {
    if (result.status.code() == absl::StatusCode::kResourceExhausted) ++refused;
  };
  pair.client.Start();
  // What a kernel may buffer besides our queue is some megabytes.
  constexpr size_t kMostMessages = 3000;
  size_t sent = 0;
  while (refused == 0 && sent < kMostMessages) {
    pair.client.Send({.body = 60 * KiB});
    ++sent;
  }
  REQUIRE(refused > 0);
  pair.server.Start();
  CHECK(arena.RunUntil([&] { return pair.client.outcomes() == sent; }));
  CHECK(arena.RunUntil([&] { return pair.server.received() == sent - refused; }));
  arena.ExpectAlive(pair);
}

constexpr Case kCases[] = {
    {"Send before Start", SendBeforeStart},
    {"callbacks may send", CallbacksMaySend},
    {"a done may send", DoneMaySend},
    {"a done may be empty", DoneMayBeEmpty},
    {"withdrawn in the same turn: unsent, and can be sent again", WithdrawnInTheSameTurn},
    {"withdrawn on its way: never whole and wrong, the connection goes on", WithdrawnOnItsWay},
    {"withdrawn at any time", WithdrawnAtAnyTime},
    {"Withdraw of what is not there", WithdrawOfWhatIsNotThere},
    {"a full queue refuses unsent", AFullQueueRefusesUnsent, kTight},
    {"a message above the limit may wait alone", ALargeMessageMayWaitAlone, kTight},
    {"a peer that does not read fills the queue", APeerThatDoesNotReadFillsTheQueue, kTight},
};

}  // namespace

std::span<const Case> SendingCases() { return kCases; }

}  // namespace farcall::testing
