// Heads reach Admit in the order of Send, small messages keep it, large payloads hold up nobody.
// Peer checks the order of heads and of small messages in every test; these make it hard to keep.

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

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

// Of a large and a small message of one turn the small one comes first.
void ExpectSmallFirst(Arena& arena, const Peer& receiver, Sent large, Sent small) {
  CHECK(arena.RunUntil([&] { return receiver.received() == 2; }));
  CHECK(receiver.order() == std::vector<uint64_t>{small.number, large.number});
}

std::pair<Sent, Sent> SendLargeAndSmall(Peer& sender, Parts large, Parts small) {
  std::pair<Sent, Sent> sent;
  sender.Do([&] { sent = {sender.Send(large), sender.Send(small)}; });
  return sent;
}

void ASmallMessageOvertakesALargeOne(Arena& arena) {
  const Pair pair = arena.Connect();
  const auto [large, small] =
      SendLargeAndSmall(pair.client, {.attachment = kHuge}, {.body = 64 * KiB});
  ExpectSmallFirst(arena, pair.server, large, small);
  // One that is sent while a large one is under way does not lose its way among its parts.
  const Sent next = pair.client.Send({.attachment = kHuge});
  const Sent later = pair.client.Send({.body = 64 * KiB});
  CHECK(arena.RunUntil([&] {
    return pair.server.Received(next.number) && pair.server.Received(later.number);
  }));
}

void LargePayloadsDoNotHoldUpTheOtherDirection(Arena& arena) {
  const Pair pair = arena.Connect();
  const auto [there, ping] = SendLargeAndSmall(pair.client, {.body = kHuge}, {.body = 1});
  const auto [back, pong] = SendLargeAndSmall(pair.server, {.attachment = kHuge}, {});
  ExpectSmallFirst(arena, pair.server, there, ping);
  ExpectSmallFirst(arena, pair.client, back, pong);
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
