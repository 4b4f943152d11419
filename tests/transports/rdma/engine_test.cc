// The engine over the software NIC: every size at its own borders, credits, memory, and what an
// operation costs. What every transport promises is in shm_test.cc.

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

#include "farcall/tests/transports/rdma/engine_testing.h"
#include "farcall/transports/rdma/envelope.h"

namespace farcall::testing {
namespace {

constexpr size_t KiB = 1024;
constexpr size_t MiB = 1024 * KiB;

void BothWays(Scene& scene, const std::vector<size_t>& sizes) {
  size_t sent = 0;
  for (size_t head : {size_t{32}, size_t{65}, kMaxHeadBytes}) {
    for (size_t size : sizes) {
      for (const Parts parts : {Parts{head, size, kAbsent}, Parts{head, kAbsent, size},
                                Parts{head, size, 1}, Parts{head, 1, size}}) {
        scene.client.Send(parts);
        scene.server.Send(parts);
        ++sent;
      }
    }
    CHECK(scene.arena.RunUntil(
        [&] { return scene.client.received() == sent && scene.server.received() == sent; }));
    CHECK(scene.arena.RunUntil(
        [&] { return scene.client.outcomes() == sent && scene.server.outcomes() == sent; }));
  }
  scene.arena.Finish();
}

TEST_CASE("every size at the borders of inline, eager and rendezvous") {
  ShmOptions options;
  SECTION("as it comes") {}
  SECTION("a threshold below the eager size") { options.rdma.threshold = 1000; }
  SECTION("no inline") { options.device.max_inline = 0; }
  SECTION("no windows") { options.device.windows = false; }
  SECTION("nothing but rendezvous") { options.rdma.threshold = 0; }
  std::vector<size_t> sizes = {0, 1, 999, 1000, 1001, 8 * KiB - 1, 8 * KiB, 8 * KiB + 1};
  // Heads and envelopes move the borders: all sizes around them.
  for (size_t size = 100; size < 260; size += 3) sizes.push_back(size);
  for (size_t size = 4070; size < 4110; size += 5) sizes.push_back(size);
  Scene scene(options);
  BothWays(scene, sizes);
}

// How a message should travel.
struct Way {
  bool eager = false;
  bool inlined = false;  // it, or what offers it
};

Way WayOf(const Parts& parts, const ShmOptions& options, uint32_t max_inline) {
  const auto size_of = [](size_t part) { return part == kAbsent ? 0 : part; };
  const MessageSizes sizes{size_of(parts.body), size_of(parts.attachment)};
  const uint32_t room = std::max(options.rdma.eager_bytes + uint32_t{64},
                                 uint32_t{4160});  // as wire_format.md has it
  const auto eager = rdma::EagerLayout(parts.head, sizes, room);
  if (eager.has_value() &&
      sizes.body + sizes.attachment <= options.rdma.threshold.value_or(options.rdma.eager_bytes)) {
    return {true, eager->end <= max_inline};
  }
  return {false, rdma::LayoutOf(rdma::Kind::kRts, parts.head, sizes).end <= max_inline};
}

// The sizes around which messages of these parts begin to travel in another way.
std::vector<size_t> Borders(const std::function<Way(size_t)>& way_of) {
  std::vector<size_t> borders;
  for (size_t size = 1; size < 10'000; ++size) {
    const Way before = way_of(size - 1), here = way_of(size);
    if (before.eager == here.eager && before.inlined == here.inlined) continue;
    for (size_t near : {size - 2, size - 1, size, size + 1}) {
      if (near < 10'000) borders.push_back(near);
    }
  }
  return borders;
}

TEST_CASE("a byte more or less decides between inline, eager and rendezvous, and on nothing else",
          "[softnic]") {
  ShmOptions options;
  SECTION("as it comes") {}
  SECTION("a threshold below the eager size") { options.rdma.threshold = 1000; }
  SECTION("little inline") { options.device.max_inline = 100; }
  const uint32_t max_inline = std::min(options.device.max_inline, uint32_t{256});
  Scene scene(options);
  size_t sent = 0;
  for (size_t head : {size_t{32}, size_t{33}, size_t{64}, size_t{65}, size_t{96}, size_t{128},
                      size_t{1000}, kMaxHeadBytes - 1, kMaxHeadBytes}) {
    for (const auto& parts_of :
         std::initializer_list<std::function<Parts(size_t)>>{[&](size_t size) {
                                                               return Parts{head, size, kAbsent};
                                                             },
                                                             [&](size_t size) {
                                                               return Parts{head, kAbsent, size};
                                                             },
                                                             [&](size_t size) {
                                                               return Parts{head, 1, size};
                                                             },
                                                             [&](size_t size) {
                                                               return Parts{head, size, 1};
                                                             }}) {
      const auto way_of = [&](size_t size) { return WayOf(parts_of(size), options, max_inline); };
      const std::vector<size_t> sizes = Borders(way_of);
      CHECK(!sizes.empty());
      for (size_t size : sizes) {
        for (const auto& [from, to] :
             {std::pair{&scene.client, &scene.server}, std::pair{&scene.server, &scene.client}}) {
          const RdmaCounters before = CountersOf(*from);
          const Sent message = from->Send(parts_of(size));
          REQUIRE(scene.arena.RunUntil([&] { return from->outcome(message).has_value(); }));
          const RdmaCounters after = CountersOf(*from);
          const Way way = way_of(size);
          INFO("a head of " << head << ", a part of " << size);
          CHECK(after.eager_messages - before.eager_messages == (way.eager ? 1 : 0));
          CHECK(after.rendezvous_messages - before.rendezvous_messages == (way.eager ? 0 : 1));
          CHECK(after.inline_sends - before.inline_sends ==
                (way.inlined ? 1 : 0) + after.credit_messages - before.credit_messages);
        }
        ++sent;
      }
    }
  }
  CHECK(scene.arena.RunUntil(
      [&] { return scene.client.received() == sent && scene.server.received() == sent; }));
  scene.arena.Finish();
}

TEST_CASE("every size at the borders of a chunk") {
  ShmOptions options;
  options.rdma.chunk_bytes = 64 * KiB;
  options.rdma.read_depth = GENERATE(1, 16);
  Scene scene(options);
  std::vector<size_t> sizes;
  for (size_t chunks : {1, 2, 5}) {
    for (size_t bytes : {chunks * 64 * KiB - 1, chunks * 64 * KiB, chunks * 64 * KiB + 1}) {
      sizes.push_back(bytes);
    }
  }
  BothWays(scene, sizes);
}

// Four receives, none to spare: one SEND too many, either way, and the connection ends.
TEST_CASE("credit soak, both ways") {
  ShmOptions options;
  options.rdma.receive_depth = 4;
  options.rdma.eager_bytes = 512;
  const Layout layout = GENERATE(Layout::kOneLoop, Layout::kThreads);
  Scene scene(options, layout, /*start=*/false);
  constexpr size_t kMessages = kSanitized ? 3000 : 20000;
  std::vector<Message> held;  // a slow receiver: it holds the last ones
  scene.server.hooks.message = [&](Ticket ticket, Message& message) {
    held.push_back(std::move(message));
    if (ticket % 50 == 0) held.clear();
  };
  for (Peer* peer : {&scene.client, &scene.server}) {
    peer->hooks.done = [peer](Ticket ticket, SendResult&) {
      // Some eager, some that are read, some of nothing but a head.
      const size_t size = ticket % 7 == 0 ? 2000 : ticket % 5 == 0 ? kAbsent : ticket % 600;
      if (ticket + 8 <= kMessages) peer->Send({.body = size});
    };
    peer->Start();
  }
  for (int i = 0; i < 8; ++i) {
    scene.client.Send({.body = 10});
    scene.server.Send({.body = 20});
  }
  CHECK(scene.arena.RunUntil([&] {
    return scene.client.received() == kMessages && scene.server.received() == kMessages;
  }));
  CHECK(!scene.client.closed().has_value());
  scene.server.Do([&] { held.clear(); });
  scene.arena.Finish();
}

TEST_CASE("ten thousand messages held by a handler stall nobody") {
  Scene scene({}, Layout::kTwoLoops, /*start=*/false);
  std::vector<Message> held;
  scene.server.hooks.message = [&](Ticket, Message& message) {
    held.push_back(std::move(message));
  };
  scene.client.Start();
  scene.server.Start();
  const size_t messages = kSanitized ? 2000 : 10000;
  for (size_t i = 0; i < messages; ++i) scene.client.Send({.body = 100 + i % 1000});
  CHECK(scene.arena.RunUntil([&] { return scene.server.received() == messages; }));
  for (const Message& message : held) CHECK(WhatIsWrong(message).empty());
  // A few lie where they arrived, the others were copied out.
  const RdmaCounters counters = CountersOf(scene.server);
  CHECK(counters.copies > messages - 64);
  CHECK(counters.copies < messages);
  scene.arena.ExpectAlive(scene.pair);
  held.clear();
  scene.arena.Finish();
}

TEST_CASE("one READ at a time serves a thousand payloads") {
  ShmOptions options;
  options.rdma.read_depth = 1;
  Scene scene(options);
  constexpr size_t kTransfers = 1000;
  scene.client.Do([&] {
    for (size_t i = 0; i < kTransfers; ++i) scene.client.Send({.body = 20 * KiB + i});
  });
  CHECK(scene.arena.RunUntil([&] { return scene.server.received() == kTransfers; }));
  CHECK(CountersOf(scene.server).reads == kTransfers);
  scene.arena.Finish();
}

TEST_CASE("payloads given up at any time end once, and their memory comes home") {
  ShmOptions options;
  options.rdma.chunk_bytes = 16 * KiB;
  options.rdma.read_depth = GENERATE(1, 4);
  Scene scene(options);
  std::minstd_rand random(11);
  const size_t messages = kSanitized ? 300 : 1000;
  std::vector<Sent> sends;
  for (size_t i = 0; i < messages; ++i) {
    sends.push_back(scene.client.Send({.body = 30 * KiB + random() % (100 * KiB)}));
    const Sent& some = sends[sends.size() - 1 - random() % std::min<size_t>(sends.size(), 6)];
    switch (random() % 3) {
      case 0:
        scene.client.Withdraw(some.ticket);
        break;
      case 1:
        if (const Ticket ticket = scene.server.TicketOf(some.number); ticket != 0) {
          scene.server.Abandon(ticket, absl::CancelledError("enough of it"));
        }
        break;
      default:
        break;
    }
  }
  CHECK(scene.arena.RunUntil([&] { return scene.client.outcomes() == messages; }));
  scene.arena.ExpectAlive(scene.pair);
  // Without the connection's end.
  CHECK(scene.arena.RunUntil([&] { return scene.client.pool()->stats().leased_bytes == 0; }));
  scene.arena.Finish();
}

// Each side stepped by itself: nothing moves at the other.
// An adapter has read it before anybody looks.
TEST_CASE("a payload that was withdrawn stays until the peer is done with it", "[softnic]") {
  Scene scene;
  EventLoop& client = scene.arena.client_loop();
  const Sent sent = scene.client.Send({.body = 1 * MiB});
  for (int i = 0; i < 5; ++i) client.RunOnce();
  scene.client.Withdraw(sent.ticket);
  for (int i = 0; i < 5; ++i) client.RunOnce();
  REQUIRE(scene.client.outcome(sent).has_value());
  CHECK(scene.client.outcome(sent)->status.code() == absl::StatusCode::kCancelled);
  CHECK(scene.client.pool()->stats().leased_bytes >= 1 * MiB);
  CHECK(scene.arena.RunUntil([&] { return scene.client.pool()->stats().leased_bytes == 0; }));
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

// ---- memory that is used up ----

TEST_CASE("a receive pool that is used up gives messages up, and recovers") {
  ShmOptions options;
  options.rdma.receive_pool_bytes = 4 * MiB;
  Scene scene(options, Layout::kTwoLoops, /*start=*/false);
  std::vector<Message> held;
  scene.server.hooks.message = [&](Ticket, Message& message) {
    held.push_back(std::move(message));
  };
  scene.client.Start();
  scene.server.Start();
  const Sent impossible = scene.client.Send({.body = 16 * MiB});
  std::vector<Sent> sends;
  for (int i = 0; i < 200; ++i) sends.push_back(scene.client.Send({.body = 60 * KiB}));
  CHECK(scene.arena.RunUntil([&] { return scene.client.outcomes() == sends.size() + 1; }));
  CHECK(scene.server.Abandoned(impossible.number)->code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(scene.server.Abandoned(impossible.number)->message()),
             Catch::Contains("RdmaOptions::receive_pool_bytes"));
  size_t abandoned = 0;
  for (const Sent& sent : sends) {
    if (!scene.server.Abandoned(sent.number).has_value()) continue;
    CHECK(scene.server.Abandoned(sent.number)->code() == absl::StatusCode::kResourceExhausted);
    ++abandoned;
  }
  CHECK(abandoned > 100);
  CHECK(scene.server.received() == sends.size() - abandoned);
  held.clear();
  const Sent again = scene.client.Send({.body = 50 * KiB});
  CHECK(scene.arena.RunUntil([&] { return scene.server.Received(again.number); }));
  held.clear();
  scene.arena.Finish();
}

TEST_CASE("a large payload waits for memory that another one has") {
  ShmOptions options;
  options.rdma.receive_pool_bytes = 8 * MiB;
  Scene scene(options, Layout::kTwoLoops, /*start=*/false);
  Message held;
  scene.server.hooks.message = [&](Ticket ticket, Message& message) {
    if (ticket == 1) held = std::move(message);
  };
  scene.client.Start();
  scene.server.Start();
  const Sent first = scene.client.Send({.body = 4 * MiB});
  CHECK(scene.arena.RunUntil([&] { return scene.server.Received(first.number); }));
  const Sent second = scene.client.Send({.body = 4 * MiB});
  const Sent small = scene.client.Send({.body = 100});
  CHECK(scene.arena.RunUntil([&] { return scene.server.Received(small.number); }));
  CHECK(!scene.server.Received(second.number));
  held = Message();
  CHECK(scene.arena.RunUntil([&] { return scene.server.Received(second.number); }));
  scene.arena.Finish();
}

// ---- what it costs ----

TEST_CASE("a steady small call is one SEND and one doorbell a direction") {
  Scene scene({}, Layout::kTwoLoops, /*start=*/false);
  scene.server.hooks.message = [&](Ticket, Message& message) {
    scene.server.Send({.body = message.body.size()});
  };
  scene.client.Start();
  scene.server.Start();
  const size_t size = GENERATE(32, 150, 1000, 8000);
  size_t calls = 0;
  const auto call = [&] {
    scene.client.Send({.body = size});
    ++calls;
    CHECK(scene.arena.RunUntil([&] { return scene.client.received() == calls; }));
  };
  for (int i = 0; i < 100; ++i) call();
  const RdmaCounters client = CountersOf(scene.client), server = CountersOf(scene.server);
  constexpr size_t kCalls = 1000;
  for (size_t i = 0; i < kCalls; ++i) call();
  for (const auto& [before, peer] : {std::pair{client, &scene.client}, {server, &scene.server}}) {
    const RdmaCounters after = CountersOf(*peer);
    CHECK(after.sends - before.sends == kCalls);
    CHECK(after.eager_messages - before.eager_messages == kCalls);
    CHECK(after.doorbells - before.doorbells == kCalls);
    // Soft-iWARP has 80 bytes of it, and envelope and head take 64.
    const bool inlined = size <= 150 && DeviceCan().acknowledges;
    CHECK(after.inline_sends - before.inline_sends == (inlined ? kCalls : 0));
    CHECK(after.signaled - before.signaled <= kCalls / 32 + 1);
    CHECK(after.credit_messages == before.credit_messages);
    CHECK(after.copies == before.copies);
    CHECK(after.registrations == before.registrations);
    CHECK(after.credit_stalls == before.credit_stalls);
    CHECK(after.slot_stalls == before.slot_stalls);
  }
  CHECK(scene.client.info().counters.payload_bytes_copied == 0);
  CHECK(scene.server.info().counters.payload_bytes_copied == 0);
  scene.arena.Finish();
}

TEST_CASE("small messages of one turn have left when Send returns, and share doorbells") {
  Scene scene;
  const size_t size = GENERATE(32, 1000);
  for (int i = 0; i < 10; ++i) scene.client.Send({.body = size});
  REQUIRE(scene.arena.RunUntil([&] { return scene.server.received() == 10; }));
  constexpr size_t kSends = 2 * rdma::kMaxBatch + 5;
  const RdmaCounters before = CountersOf(scene.client);
  std::vector<Sent> sends;
  scene.client.Do([&] {
    for (size_t i = 0; i < kSends; ++i) {
      sends.push_back(scene.client.Send({.body = size}));
      CHECK(scene.client.outcome(sends.back()).has_value());
    }
    // The first by itself, and what made a full list.
    CHECK(CountersOf(scene.client).doorbells - before.doorbells == 1 + 2);
  });
  REQUIRE(scene.arena.RunUntil([&] { return scene.server.received() == 10 + kSends; }));
  CHECK(CountersOf(scene.client).sends - before.sends == kSends);
  CHECK(CountersOf(scene.client).doorbells - before.doorbells == 1 + 3);
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

TEST_CASE("what waited for credits leaves before what is sent later") {
  ShmOptions options;
  options.rdma.receive_depth = 4;
  Scene scene(options, Layout::kTwoLoops, /*start=*/false);
  std::vector<uint64_t> order;
  scene.server.hooks.message = [&](Ticket ticket, Message&) { order.push_back(ticket); };
  // One more for each that comes back, with some waiting all the time.
  size_t sent = 0;
  scene.client.hooks.done = [&](Ticket, SendResult& result) {
    CHECK(result.status.ok());
    if (sent < 300) scene.client.Send({.body = ++sent});
  };
  scene.client.Start();
  scene.server.Start();
  scene.client.Do([&] {
    for (int i = 0; i < 10; ++i) scene.client.Send({.body = ++sent});
  });
  REQUIRE(scene.arena.RunUntil([&] { return scene.server.received() == 300; }));
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(CountersOf(scene.client).credit_stalls > 0);
  scene.arena.Finish();
}

TEST_CASE("rendezvous is an RTS, a READ a chunk and a FIN, and no copy") {
  Scene scene;
  const auto send = [&](size_t size) {
    const Sent sent = scene.client.Send({.body = size, .attachment = size});
    REQUIRE(scene.arena.RunUntil([&] { return scene.client.outcome(sent).has_value(); }));
    REQUIRE(scene.arena.RunUntil([&] { return scene.server.Received(sent.number); }));
  };
  for (int i = 0; i < 3; ++i) send(1 * MiB);
  const RdmaCounters client = CountersOf(scene.client), server = CountersOf(scene.server);
  for (int i = 0; i < 10; ++i) send(1 * MiB);
  CHECK(CountersOf(scene.client).sends - client.sends == 10);
  CHECK(CountersOf(scene.client).rendezvous_messages - client.rendezvous_messages == 10);
  CHECK(CountersOf(scene.server).sends - server.sends == 10);
  const size_t chunk = std::min<uint64_t>(256 * KiB, DeviceCan().max_read_bytes);
  CHECK(CountersOf(scene.server).reads - server.reads == 10 * 2 * (1 * MiB / chunk));
  CHECK(CountersOf(scene.client).registrations == client.registrations);
  CHECK(CountersOf(scene.server).registrations == server.registrations);
  CHECK(CountersOf(scene.client).copies == 0);
  CHECK(CountersOf(scene.server).copies == 0);
  scene.arena.Finish();
}

TEST_CASE("many large payloads at once are received into the memory of a few") {
  Scene scene;
  constexpr size_t kPayloads = 32;
  const uint64_t before = CountersOf(scene.server).registrations;
  scene.client.Do([&] {
    for (size_t i = 0; i < kPayloads; ++i) scene.client.Send({.body = 3 * MiB / 2});
  });
  CHECK(scene.arena.RunUntil([&] { return scene.server.received() == kPayloads; }));
  // Each slot of 2 MiB is a region by itself: that of the one that is read, that of the next, and
  // perhaps that of one that the receiver has.
  CHECK(CountersOf(scene.server).registrations - before <= 3);
  scene.arena.Finish();
}

TEST_CASE("a refused payload costs no READ") {
  Scene scene({}, Layout::kTwoLoops, /*start=*/false);
  scene.server.hooks.admit = [](Ticket, MessageSizes) {
    return Admission{absl::ResourceExhaustedError("not for me"), {}};
  };
  scene.client.Start();
  scene.server.Start();
  const Sent sent = scene.client.Send({.body = 1 * MiB});
  CHECK(scene.arena.RunUntil([&] { return scene.client.outcome(sent).has_value(); }));
  CHECK(CountersOf(scene.server).reads == 0);
  scene.arena.Finish();
}

TEST_CASE("options out of bounds are said", "[softnic]") {
  ShmOptions options;
  SECTION("depth") { options.rdma.receive_depth = 3; }
  SECTION("eager") { options.rdma.eager_bytes = 2 << 20; }
  SECTION("threshold") { options.rdma.threshold = 9000; }
  SECTION("chunk") { options.rdma.chunk_bytes = 0; }
  SECTION("device") { options.device.max_read_sges = 0; }
  EventLoop loop({.helper_thread = false});
  const absl::Status status =
      MakeShmTransport(options)->Listen(NewShmName(), {&loop}, [](auto&&...) {}).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Catch::Matchers::Contains("Options::"));
}

}  // namespace
}  // namespace farcall::testing
