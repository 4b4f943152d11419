// Each message arrives whole and once: every byte of every size, aligned, from any memory.

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "farcall/tests/transports/conformance/cases.h"

namespace farcall::testing {
namespace {

constexpr size_t kHeadSizes[] = {32, 64, 65, 100, 1000, kMaxHeadBytes};

void SmallPayloadsOfEverySize(Arena& arena) {
  const Pair pair = arena.Connect();
  constexpr size_t kSizes[] = {kAbsent, 0,    1,    63,           64,       65,
                               4095,    4096, 4097, 64 * KiB - 1, 64 * KiB, 64 * KiB + 1};
  size_t sent = 0;
  for (size_t body : kSizes) {
    pair.client.Do([&] {
      for (size_t attachment : kSizes) {
        pair.client.Send({kHeadSizes[sent++ % std::size(kHeadSizes)], body, attachment});
      }
    });
  }
  CHECK(arena.RunUntil([&] { return pair.server.received() == sent; }));
  CHECK(arena.RunUntil([&] { return pair.client.outcomes() == sent; }));
}

void LargePayloadsOfEverySize(Arena& arena) {
  const Pair pair = arena.Connect();
  size_t sent = 0;
  for (size_t size : {256 * KiB, 1 * MiB, 16 * MiB}) {
    for (size_t bytes : {size - 1, size, size + 1}) {
      // From the server this time: both ends send.
      pair.server.Send({32, bytes, kAbsent});
      pair.server.Send({64, kAbsent, bytes});
      pair.server.Send({100, 1, bytes});
      pair.server.Send({32, bytes, bytes});
      sent += 4;
      if (kSanitized && size > 1 * MiB) break;
    }
  }
  CHECK(arena.RunUntil([&] { return pair.client.received() == sent; }));
  CHECK(arena.RunUntil([&] { return pair.server.outcomes() == sent; }));
}

// Heads too short for a label: they are told apart by their order.
void HeadsOfEverySize(Arena& arena) {
  constexpr size_t kSizes[] = {0, 1, 31, 32, 33, 63, 64, 65, 4095, kMaxHeadBytes};
  const Pair pair = arena.Connect(/*start=*/false);
  std::vector<Parts> sent;
  for (size_t head : kSizes) {
    sent.push_back({head, kAbsent, kAbsent});
    sent.push_back({head, 10, kAbsent});
  }
  std::atomic<size_t> right = 0;
  std::atomic<size_t> received = 0;
  pair.server.hooks.message = [&](Ticket ticket, Message& message) {
    ++received;
    if (WhatIsWrong(message, ticket, sent[ticket - 1]).empty()) ++right;
  };
  pair.client.Start();
  pair.server.Start();
  for (const Parts& parts : sent) pair.client.Send(parts);
  CHECK(arena.RunUntil([&] { return received == sent.size(); }));
  CHECK(right == sent.size());
}

void AnOversizeHeadIsRefusedUnsent(Arena& arena) {
  const Pair pair = arena.Connect();
  const Sent sent = pair.client.Send({.head = kMaxHeadBytes + 1});
  REQUIRE(arena.RunUntil([&] { return pair.client.outcome(sent).has_value(); }));
  CHECK(!pair.client.outcome(sent)->status.ok());
  CHECK(!pair.client.outcome(sent)->sent);
  arena.ExpectAlive(pair);
}

// Memory of the user's own, wherever it lies.
struct Borrowed {
  explicit Borrowed(size_t size) : bytes(size) {}
  static void Release(void* borrowed) { ++static_cast<Borrowed*>(borrowed)->releases; }
  Buffer Wrap(size_t offset, size_t size) {
    return WrapBytes(std::span(bytes).subspan(offset, size), &Release, this);
  }
  std::vector<std::byte> bytes;
  std::atomic<int> releases = 0;
};

Message Labelled(uint64_t number, Buffer body, Buffer attachment) {
  Message message;
  const Label label{.number = number, .body = body.size(), .attachment = attachment.size()};
  std::memcpy(message.head.Resize(sizeof(label)).data(), &label, sizeof(label));
  message.body = std::move(body);
  message.attachment = std::move(attachment);
  return message;
}

void PayloadsFromAnyMemory(Arena& arena) {
  const Pair pair = arena.Connect();
  auto other_pool = std::make_unique<BufferPool>();
  uint64_t number = 0;
  std::vector<std::unique_ptr<Borrowed>> borrowed;
  for (size_t size : {size_t{1}, size_t{100}, 5 * KiB, 300 * KiB, 2 * MiB}) {
    // A body in the middle of a slot of some other pool, an attachment in a vector.
    Buffer body = other_pool->Allocate(size + 3).value();
    body.SetView(3, size);
    FillSegment(++number, 1, body.bytes());
    borrowed.push_back(std::make_unique<Borrowed>(size + 7));
    FillSegment(number, 2, std::span(borrowed.back()->bytes).subspan(7));
    pair.client.Send(Labelled(number, std::move(body), borrowed.back()->Wrap(7, size)), number);
  }
  CHECK(arena.RunUntil([&] { return pair.server.received() == number; }));
  for (const auto& memory : borrowed) {
    CHECK(arena.RunUntil([&] { return memory->releases == 1; }));
  }
  CHECK(other_pool->stats().leased_bytes == 0);
}

void BorrowedMemoryIsReleasedOnceWhateverHappens(Arena& arena) {
  Borrowed memory(8 * MiB);
  const Pair pair = arena.Connect(/*start=*/false);
  for (uint64_t number = 1; number <= 8; ++number) {
    const size_t at = (number - 1) * MiB;  // each its own: one that comes back unsent is looked at
    const size_t size = number % 2 == 0 ? 10 : 1 * MiB;
    FillSegment(number, 2, std::span(memory.bytes).subspan(at, size));
    pair.client.Send(Labelled(number, {}, memory.Wrap(at, size)), number);
  }
  pair.client.Withdraw(7);
  pair.client.Destroy();
  pair.server.Destroy();
  CHECK(arena.RunUntil([&] { return memory.releases == 8; }));
}

void BuffersOutliveConnectionAndTransport(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  Message small, large;
  Buffer allocated = pair.server.pool()->Allocate(1000).value();
  pair.server.hooks.message = [&](Ticket ticket, Message& message) {
    (ticket == 1 ? small : large) = std::move(message);
  };
  pair.client.Start();
  pair.server.Start();
  pair.client.Send({.body = 5000, .attachment = 100});
  pair.client.Send({.body = 2 * MiB, .attachment = 1 * MiB});
  REQUIRE(arena.RunUntil([&] { return pair.server.received() == 2; }));
  pair.client.Destroy();
  pair.server.Destroy();
  arena.DropTransport();
  std::memset(allocated.data(), 1, allocated.size());
  CHECK(WhatIsWrong(small) == "");
  CHECK(WhatIsWrong(large) == "");
}

void PoolsServeAnyThread(Arena& arena) {
  const Pair pair = arena.Connect();
  Message built = MakeMessage(*pair.client.pool(), 1, {.body = 20 * KiB, .attachment = 2 * MiB});
  pair.client.Send(std::move(built), 1);
  CHECK(arena.RunUntil([&] { return pair.server.received() == 1; }));
}

constexpr Case kCases[] = {
    {"small payloads of every size, body and attachment in all combinations",
     SmallPayloadsOfEverySize},
    {"large payloads of every size", LargePayloadsOfEverySize},
    {"heads of every size", HeadsOfEverySize},
    {"an oversize head is refused unsent", AnOversizeHeadIsRefusedUnsent},
    {"payloads from any memory arrive aligned", PayloadsFromAnyMemory},
    {"borrowed memory is released once, whatever happens",
     BorrowedMemoryIsReleasedOnceWhateverHappens},
    {"buffers outlive connection and transport", BuffersOutliveConnectionAndTransport},
    {"pools serve any thread", PoolsServeAnyThread},
};

}  // namespace

std::span<const Case> ContentCases() { return kCases; }

}  // namespace farcall::testing
