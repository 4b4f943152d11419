#include "farcall/transports/loopback/loopback.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farcall/tests/transports/conformance.h"
#include "farcall/tests/transports/conformance/arena.h"

namespace farcall::testing {
namespace {

TransportUnderTest Loopback(LoopbackOptions options = {}) {
  options.network = MakeLoopbackNetwork();
  const auto new_name = [names = 0]() mutable {
    return ParseEndpoint("loopback://test-" + std::to_string(++names)).value();
  };
  return {.name = "loopback",
          .make =
              [options](TransportLimits limits) mutable {
                options.limits = limits;
                return MakeLoopbackTransport(options);
              },
          .listen_endpoint = new_name,
          .silent_endpoint =
              [](Transport& transport, EventLoop& nobody_drives) {
                const Endpoint silent = ParseEndpoint("loopback://silent").value();
                std::shared_ptr<Listener> listener =
                    transport.Listen(silent, {&nobody_drives}, [](auto&&...) {}).value();
                return std::pair<Endpoint, std::shared_ptr<void>>(silent, listener);
              }};
}

TEST_CASE("loopback keeps the transport's promises") { RunTransportConformance(Loopback()); }

// ---- step by step: one loop, a clock that stands still ----

// How a message of 1 MiB, four chunks, ends when something happens `turns` turns after its Send.
enum class End { kUnsent, kAbandoned, kWhole };

void Step(Arena& arena, int turns) {
  for (int i = 0; i < turns; ++i) arena.client_loop().RunOnce();
}

TEST_CASE("a transfer is withdrawn in each turn of its life") {
  std::vector<End> ends;
  for (int turns = 0; turns < 10; ++turns) {
    INFO("turns=" << turns);
    ManualClock clock;
    const TransportUnderTest subject = Loopback();
    Arena arena(subject, Layout::kOneLoop, {}, &clock);
    const Pair pair = arena.Connect();
    Sent sent;
    pair.client.Do([&] {
      sent = pair.client.Send({.body = 1 * MiB});
      if (turns == 0) pair.client.Withdraw(sent.ticket);
    });
    Step(arena, turns);
    pair.client.Withdraw(sent.ticket);
    arena.ExpectAlive(pair);
    const Outcome outcome = pair.client.outcome(sent).value();
    if (!outcome.sent) {
      ends.push_back(End::kUnsent);
    } else if (pair.server.Received(sent.number)) {  // it may have been too late
      ends.push_back(End::kWhole);
    } else {
      CHECK(outcome.status.code() == absl::StatusCode::kCancelled);
      REQUIRE(pair.server.Abandoned(sent.number).has_value());
      CHECK(pair.server.Abandoned(sent.number)->code() == absl::StatusCode::kCancelled);
      ends.push_back(End::kAbandoned);
    }
    arena.Finish();
  }
  CHECK(ends.front() == End::kUnsent);
  CHECK(std::is_sorted(ends.begin(), ends.end()));
  CHECK(std::count(ends.begin(), ends.end(), End::kAbandoned) >= 2);
  CHECK(ends.back() == End::kWhole);
}

TEST_CASE("a transfer is abandoned in each turn of its life") {
  std::vector<End> ends;
  for (int turns = 0; turns < 8; ++turns) {
    INFO("turns=" << turns);
    ManualClock clock;
    const TransportUnderTest subject = Loopback();
    Arena arena(subject, Layout::kOneLoop, {}, &clock);
    const Pair pair = arena.Connect();
    const Sent sent = pair.client.Send({.body = 1 * MiB});
    REQUIRE(arena.RunUntil([&] { return pair.server.TicketOf(sent.number) != 0; }));
    Step(arena, turns);
    pair.server.Abandon(1, absl::DeadlineExceededError("too late"));
    arena.ExpectAlive(pair);
    CHECK(pair.client.outcome(sent)->status.ok());
    const bool whole = pair.server.Received(sent.number);
    CHECK(whole != pair.server.Abandoned(sent.number).has_value());
    ends.push_back(whole ? End::kWhole : End::kAbandoned);
    arena.Finish();
  }
  CHECK(std::is_sorted(ends.begin(), ends.end()));
  CHECK(ends.front() == End::kAbandoned);
  CHECK(ends.back() == End::kWhole);
}

TEST_CASE("the same script has the same history") {
  const auto run = [](Layout layout) {
    ManualClock clock;
    const TransportUnderTest subject = Loopback();
    Arena arena(subject, layout, {}, &clock);
    const Pair pair = arena.Connect();
    for (size_t i = 0; i < 50; ++i) {
      const Sent sent = pair.client.Send({.body = i % 4 == 1 ? 900 * KiB : i});
      pair.server.Send({.body = 300 * KiB});
      if (i % 9 == 5) pair.client.Withdraw(sent.ticket);
    }
    pair.client.Close(absl::CancelledError("enough"));
    arena.Finish();
    return std::array{pair.client.history(), pair.server.history()};
  };
  for (Layout layout : {Layout::kOneLoop, Layout::kTwoLoops}) CHECK(run(layout) == run(layout));
}

// ---- what only loopback promises ----

TEST_CASE("buffers are handed over, not copied") {
  const TransportUnderTest subject = Loopback();
  Arena arena(subject, Layout::kOneLoop);
  const Pair pair = arena.Connect(/*start=*/false);
  std::vector<const std::byte*> received;
  pair.server.hooks.message = [&](Ticket, Message& message) {
    received.push_back(message.body.data());
    received.push_back(message.attachment.data());
  };
  pair.client.Start();
  pair.server.Start();
  std::vector<const std::byte*> sent;
  for (size_t bytes : {10 * KiB, 10 * MiB}) {
    Message message =
        MakeMessage(*pair.client.pool(), sent.size() + 1, {.body = bytes, .attachment = bytes});
    sent.push_back(message.body.data());
    sent.push_back(message.attachment.data());
    pair.client.Send(std::move(message), sent.size() - 1);
    REQUIRE(arena.RunUntil([&] { return received.size() == sent.size(); }));
  }
  CHECK(received == sent);
  CHECK(pair.client.info().counters.payload_bytes_copied == 0);
  CHECK(pair.server.info().counters.payload_bytes_copied == 0);
  arena.Finish();
}

TEST_CASE("a copy that the receiver asked for is counted") {
  BufferPool own;
  const TransportUnderTest subject = Loopback();
  Arena arena(subject, Layout::kOneLoop);
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.admit = [&](Ticket, MessageSizes sizes) {
    return Admission{.refused = absl::OkStatus(),
                     .attachment = own.Allocate(static_cast<size_t>(sizes.attachment)).value()};
  };
  pair.client.Start();
  pair.server.Start();
  pair.client.Send({.body = 1 * MiB, .attachment = 300 * KiB});
  REQUIRE(arena.RunUntil([&] { return pair.server.received() == 1; }));
  CHECK(pair.server.info().counters.payload_bytes_copied == 300 * KiB);
  arena.Finish();
}

TEST_CASE("no memory for a copy: the message is abandoned, the connection goes on") {
  const TransportUnderTest subject =
      Loopback({.pool = std::make_shared<BufferPool>(BufferPoolOptions{.max_bytes = 1 * MiB})});
  Arena arena(subject, Layout::kOneLoop);
  const Pair pair = arena.Connect();
  for (size_t bytes : {3 * MiB, 4 * MiB}) {
    std::vector<std::byte> memory(bytes + 1);  // one byte in: not aligned
    const uint64_t number = bytes / MiB;
    Message message = MakeMessage(*pair.client.pool(), number, {});
    message.attachment = WrapBytes(
        std::span(memory).subspan(1), [](void*) {}, /*argument=*/nullptr);
    const Label label{.number = number, .attachment = bytes};
    std::memcpy(message.head.data(), &label, sizeof(label));
    const Sent sent = pair.client.Send(std::move(message), number);
    REQUIRE(arena.RunUntil([&] { return pair.server.Abandoned(number).has_value(); }));
    CHECK(pair.server.Abandoned(number)->code() == absl::StatusCode::kResourceExhausted);
    CHECK(arena.RunUntil([&] { return pair.client.outcome(sent).has_value(); }));
  }
  arena.ExpectAlive(pair);
  arena.Finish();
}

TEST_CASE("a buffer of Admit that is too small costs its message only") {
  BufferPool own;
  const TransportUnderTest subject = Loopback();
  Arena arena(subject, Layout::kOneLoop);
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.admit = [&](Ticket, MessageSizes sizes) {
    Admission admission;
    if (sizes.attachment > 0) admission.attachment = own.Allocate(100).value();
    return admission;
  };
  pair.client.Start();
  pair.server.Start();
  const Sent small = pair.client.Send({.attachment = 10 * KiB});
  const Sent large = pair.client.Send({.attachment = 10 * MiB});
  CHECK(arena.RunUntil([&] { return pair.server.Abandoned(small.number).has_value(); }));
  CHECK(arena.RunUntil([&] { return pair.server.Abandoned(large.number).has_value(); }));
  arena.ExpectAlive(pair);
  arena.Finish();
}

TEST_CASE("whatever is announced, only Admit decides") {
  constexpr size_t kTebibyte = size_t{1} << 40;  // of address, not of memory
  alignas(kBufferAlignment) std::byte base[kBufferAlignment];
  BufferSlot slot{.base = base, .capacity = kTebibyte, .release = [](BufferSlot*) {}};
  const TransportUnderTest subject = Loopback();
  Arena arena(subject, Layout::kOneLoop, {.max_queued_bytes = 1000});
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.admit = [](Ticket, MessageSizes sizes) {
    Admission admission;
    if (sizes.body > 1000) admission.refused = absl::ResourceExhaustedError("too large");
    return admission;
  };
  pair.client.Start();
  pair.server.Start();
  Message message = MakeMessage(*pair.client.pool(), 1, {});
  message.body = Buffer(&slot, kTebibyte);
  const Label label{.number = 1, .body = kTebibyte};
  std::memcpy(message.head.data(), &label, sizeof(label));
  const Sent sent = pair.client.Send(std::move(message), 1);
  CHECK(arena.RunUntil([&] { return pair.client.outcome(sent).has_value(); }));
  CHECK(pair.server.admitted() == 1);
  arena.ExpectAlive(pair);
  arena.Finish();
}

TEST_CASE("large payloads on their way are bounded") {
  const TransportUnderTest subject = Loopback();
  Arena arena(subject, Layout::kOneLoop, {.max_transfers = 3});
  const Pair pair = arena.Connect();
  std::vector<Sent> sends;
  pair.client.Do([&] {
    for (int i = 0; i < 4; ++i) sends.push_back(pair.client.Send({.body = 100 * KiB}));
  });
  REQUIRE(arena.RunUntil([&] { return pair.client.outcomes() == 4; }));
  CHECK(pair.client.outcome(sends[2])->status.ok());
  CHECK(pair.client.outcome(sends[3])->status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(!pair.client.outcome(sends[3])->sent);
  arena.ExpectAlive(pair);
  arena.Finish();
}

TEST_CASE("transports of the process see each other, networks do not") {
  EventLoop loop({.helper_thread = false});
  const Endpoint name = ParseEndpoint("loopback://somebody").value();
  const auto listener = MakeLoopbackTransport()->Listen(name, {&loop}, [](auto&&...) {}).value();
  const auto dial = [&](LoopbackOptions options) {
    absl::Status status = absl::UnknownError("no answer");
    const auto transport = MakeLoopbackTransport(std::move(options));
    std::unique_ptr<Transport::PendingConnect> handle;
    loop.Post([&] {
      handle = transport->Connect(loop, name, loop.now() + kPatience,
                                  [&](auto connection) { status = connection.status(); });
    });
    for (int i = 0; i < 10; ++i) loop.RunOnce();
    loop.Post([&] { handle = nullptr; });
    loop.RunOnce();
    return status;
  };
  CHECK(dial({}).ok());
  CHECK(dial({.network = MakeLoopbackNetwork()}).code() == absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace farcall::testing
