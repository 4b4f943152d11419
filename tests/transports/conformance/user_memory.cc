// Memory of the user's own (rpc/user_memory.h): messages come from it and arrive in it whole,
// whoever drops what when.

#include "farcall/rpc/user_memory.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "farcall/tests/transports/conformance/cases.h"

namespace farcall::testing {
namespace {

// Borders of every road that a payload takes: inline, eager, rendezvous, small, a chunk.
constexpr size_t kSizes[] = {0,         1,          100,          8 * KiB - 1,   8 * KiB,
                             9 * KiB,   64 * KiB,   64 * KiB + 1, 256 * KiB - 1, 256 * KiB,
                             257 * KiB, 3 * MiB + 1};

// Registered memory of a test, which says when it is free.
struct Registered {
  explicit Registered(size_t size) : bytes(size) {
    memory = UserMemory::Register(bytes, &Release, this).value();
  }
  static void Release(void* registered) { ++static_cast<Registered*>(registered)->releases; }

  std::vector<std::byte> bytes;
  std::shared_ptr<UserMemory> memory;
  std::atomic<int> releases = 0;
};

Message Labelled(uint64_t number, Buffer attachment) {
  Message message;
  const Label label{.number = number, .body = 0, .attachment = attachment.size()};
  std::memcpy(message.head.Resize(sizeof(label)).data(), &label, sizeof(label));
  message.attachment = std::move(attachment);
  return message;
}

// One after the other out of one handle, at odd places.
void SentFromUserMemory(Arena& arena) {
  const Pair pair = arena.Connect();
  Registered registered(16 * MiB);
  uint64_t number = 0;
  size_t at = 3;
  for (const size_t size : kSizes) {
    Buffer slice = registered.memory->Slice(at, size).value();
    at += size + 1;
    FillSegment(++number, 2, slice.bytes());
    pair.client.Send(Labelled(number, std::move(slice)), number);
  }
  CHECK(arena.RunUntil([&] { return pair.server.received() == number; }));
  CHECK(arena.RunUntil([&] { return pair.client.outcomes() == number; }));
  CHECK(arena.RunUntil([&] { return !registered.memory->in_use(); }));
  CHECK(registered.releases == 0);
}

void ReceivedIntoUserMemory(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  Registered registered(16 * MiB);
  std::vector<const std::byte*> wanted, got;  // touched on the loop, then by us
  std::vector<Message> held;
  size_t at = 5;
  pair.server.hooks.admit = [&](Ticket, MessageSizes sizes) {
    Admission admission;
    if (sizes.attachment == 0) return admission;
    admission.attachment =
        registered.memory->Slice(at, static_cast<size_t>(sizes.attachment)).value();
    wanted.push_back(admission.attachment.data());
    at += static_cast<size_t>(sizes.attachment) + 3;
    return admission;
  };
  pair.server.hooks.message = [&](Ticket, Message& message) {
    if (!message.attachment.empty()) got.push_back(message.attachment.data());
    held.push_back(std::move(message));
  };
  pair.client.Start();
  pair.server.Start();
  for (const size_t size : kSizes) pair.client.Send({.body = 10, .attachment = size});
  CHECK(arena.RunUntil([&] { return pair.server.received() == std::size(kSizes); }));
  pair.server.Do([&] {
    std::sort(wanted.begin(), wanted.end());
    std::sort(got.begin(), got.end());
  });
  CHECK(got == wanted);
  CHECK(registered.memory->in_use());
  held.clear();
  CHECK(!registered.memory->in_use());
}

void TheHandleMayGoFirst(Arena& arena) {
  Registered source(2 * MiB), sink(2 * MiB);
  {
    const Pair pair = arena.Connect(/*start=*/false);
    Buffer place = sink.memory->Slice(0, 2 * MiB).value();
    sink.memory.reset();
    pair.server.hooks.admit = [&](Ticket, MessageSizes) {
      return Admission{absl::OkStatus(), std::move(place)};
    };
    pair.client.Start();
    pair.server.Start();
    Buffer slice = source.memory->Slice(64, 1 * MiB).value();
    FillSegment(1, 2, slice.bytes());
    source.memory.reset();
    pair.client.Send(Labelled(1, std::move(slice)), 1);
    CHECK(arena.RunUntil([&] { return pair.server.received() == 1; }));
    CHECK(arena.RunUntil([&] { return source.releases == 1 && sink.releases == 1; }));
    arena.ExpectAlive(pair);
  }
}

// Once the slice is back nobody writes there any more, and nobody reads there.
void GivenUpInTheMiddle(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  Registered source(kHuge), sink(kHuge);
  Buffer place = sink.memory->Slice(0, kHuge).value();
  pair.server.hooks.admit = [&](Ticket, MessageSizes) {
    return Admission{absl::OkStatus(), std::move(place)};
  };
  pair.client.Start();
  pair.server.Start();
  Buffer slice = source.memory->Slice(0, kHuge).value();
  FillSegment(1, 2, slice.bytes());
  const Sent sent = pair.client.Send(Labelled(1, std::move(slice)), 1);
  CHECK(arena.RunUntil([&] { return pair.server.TicketOf(1) != 0; }));
  SECTION("by the receiver") {
    pair.server.Abandon(pair.server.TicketOf(1), absl::CancelledError("no more of this"));
  }
  SECTION("by the sender") { pair.client.Withdraw(sent.ticket); }
  SECTION("by the end of the receiver's connection") { pair.server.Destroy(); }
  SECTION("by the end of the sender's connection") { pair.client.Destroy(); }
  CHECK(arena.RunUntil([&] { return !sink.memory->in_use(); }));
  std::fill(sink.bytes.begin(), sink.bytes.end(), std::byte{0xc5});
  CHECK(arena.RunUntil([&] { return !source.memory->in_use(); }));
  std::fill(source.bytes.begin(), source.bytes.end(), std::byte{0x3a});
  arena.RunFor(kQuiet);
  const auto is_canary = [](std::byte byte) { return byte == std::byte{0xc5}; };
  CHECK(std::all_of(sink.bytes.begin(), sink.bytes.end(), is_canary));
  pair.client.Destroy();
  pair.server.Destroy();
  source.memory.reset();
  sink.memory.reset();
  CHECK(arena.RunUntil([&] { return source.releases == 1 && sink.releases == 1; }));
}

constexpr Case kCases[] = {
    {"sent from user memory, every size", SentFromUserMemory},
    {"received into user memory, every size", ReceivedIntoUserMemory},
    {"the handle of user memory may go before its slices", TheHandleMayGoFirst},
    {"user memory that is given up in the middle is free when it is back", GivenUpInTheMiddle},
};

}  // namespace

std::span<const Case> UserMemoryCases() { return kCases; }

}  // namespace farcall::testing
