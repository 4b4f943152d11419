// Heads reach Admit in the order of Send, small messages keep it, large payloads hold up nobody.
// Peer checks the order of heads and of small messages in every test; these make it hard to keep.

#include <catch2/catch.hpp>

#include "farcall/tests/transports/conformance/cases.h"

namespace farcall::testing {
namespace {

void HeadsInTheOrderOfSend(Arena& arena) {
  const Pair pair = arena.Connect();
  constexpr size_t kBodies[] = {kAbsent, 1,       300 * KiB, 10,        64 * KiB, 64 * KiB + 1,
                                2 * MiB, kAbsent, 5 * KiB,   100 * KiB, 100};
  constexpr size_t kMessages = 110;
  for (size_t i = 0; i < kMessages; ++i) {
    pair.client.Send({.body = kBodies[i % std::size(kBodies)]});
  }
  CHECK(arena.RunUntil([&] { return pair.server.received() == kMessages; }));
}

void SmallMessagesKeepTheirOrder(Arena& arena) {
  const Pair pair = arena.Connect();
  constexpr size_t kMessages = 2000;
  size_t sent = 0;
  while (sent < kMessages) {
    // Turns of one message, of a few and of many.
    const size_t together = 1 + sent * 7 % 100;
    pair.client.Do([&] {
      for (size_t i = 0; i < together; ++i, ++sent) {
        pair.client.Send({.head = 32 + sent % 200, .body = sent * 1009 % (16 * KiB)});
      }
    });
  }
  CHECK(arena.RunUntil([&] { return pair.server.received() == sent; }));
}

// Of two messages that were sent in one turn, the large one first, the small one came first. With
// threads there is no telling: the receiver may have all of the large one before the sender's
// thread gets round to the small one.
void ExpectSmallFirst(Arena& arena, const Peer& receiver, Sent small, Sent large) {
  CHECK(arena.RunUntil([&] { return receiver.Received(small.number); }));
  if (arena.layout() == Layout::kThreads) return;
  for (const uint64_t number : receiver.order()) {
    if (number == small.number) return;
    CHECK(number != large.number);
  }
}

void ASmallMessageOvertakesALargeOne(Arena& arena) {
  const Pair pair = arena.Connect();
  Sent large, small;
  pair.client.Do([&] {
    large = pair.client.Send({.attachment = kHuge});
    small = pair.client.Send({.body = 100});
  });
  ExpectSmallFirst(arena, pair.server, small, large);
  // One that is sent later does not wait for the large one's end, nor lose its way among its parts.
  small = pair.client.Send({.body = 64 * KiB});
  CHECK(arena.RunUntil([&] { return pair.server.Received(small.number); }));
  CHECK(arena.RunUntil([&] { return pair.server.Received(large.number); }));
}

void LargePayloadsDoNotHoldUpTheOtherDirection(Arena& arena) {
  const Pair pair = arena.Connect();
  Sent there, back, ping, pong;
  pair.client.Do([&] {
    there = pair.client.Send({.body = kHuge});
    ping = pair.client.Send({.body = 1});
  });
  pair.server.Do([&] {
    back = pair.server.Send({.attachment = kHuge});
    pong = pair.server.Send({.body = 1});
  });
  ExpectSmallFirst(arena, pair.server, ping, there);
  ExpectSmallFirst(arena, pair.client, pong, back);
  CHECK(arena.RunUntil(
      [&] { return pair.server.Received(there.number) && pair.client.Received(back.number); }));
}

void ManyLargePayloadsAtOnce(Arena& arena) {
  const Pair pair = arena.Connect();
  constexpr size_t kTransfers = 60;
  pair.client.Do([&] {
    for (size_t i = 0; i < kTransfers; ++i) {
      pair.client.Send({.body = 65 * KiB + i * 20 * KiB, .attachment = i * 5});
    }
  });
  CHECK(arena.RunUntil([&] { return pair.server.received() == kTransfers; }));
}

constexpr Case kCases[] = {
    {"heads reach Admit in the order of Send", HeadsInTheOrderOfSend},
    {"small messages keep their order", SmallMessagesKeepTheirOrder},
    {"a small message overtakes a large one", ASmallMessageOvertakesALargeOne},
    {"large payloads both ways hold up nobody", LargePayloadsDoNotHoldUpTheOtherDirection},
    {"many large payloads at once", ManyLargePayloadsAtOnce},
};

}  // namespace

std::span<const Case> OrderCases() { return kCases; }

}  // namespace farcall::testing
