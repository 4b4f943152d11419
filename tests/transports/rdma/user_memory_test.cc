// User memory (rpc/user_memory.h) at the engine: no copy where none may be, one registration a
// domain, and nothing is left of it when its users go. That it works is a promise of every
// transport.

#include "farcall/rpc/user_memory.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "farcall/tests/transports/rdma/anywhere.h"
#include "farcall/tests/transports/rdma/engine_testing.h"
#include "farcall/transports/rdma/limits.h"

namespace farcall::testing {
namespace {

using softnic::Fault;

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

struct Registered {
  explicit Registered(size_t size) : bytes(size), memory(UserMemory::Register(bytes).value()) {}
  bool Inside(const std::byte* at) const { return at >= bytes.data() && at < &*bytes.end(); }

  std::vector<std::byte> bytes;
  std::shared_ptr<UserMemory> memory;
};

Message From(UserMemory& memory, uint64_t number, size_t offset, size_t size) {
  Message message;
  const Label label{.number = number, .body = 0, .attachment = size};
  std::memcpy(message.head.Resize(sizeof(label)).data(), &label, sizeof(label));
  message.attachment = memory.Slice(offset, size).value();
  FillSegment(number, 2, message.attachment.bytes());
  return message;
}

// Sends messages out of a handle, one after the other.
struct Sending {
  void operator()(size_t messages, size_t size) {
    for (size_t i = 0; i < messages; ++i) {
      const size_t offset = number % 7 * size;
      const Sent sent =
          scene.client.Send(From(*source.memory, number + 1, offset, size), number + 1);
      ++number;
      REQUIRE(scene.arena.RunUntil([&] { return scene.server.received() == number; }));
      REQUIRE(scene.arena.RunUntil([&] { return scene.client.outcome(sent).has_value(); }));
      REQUIRE(scene.arena.RunUntil([&] { return !source.memory->in_use(); }));
    }
  }
  Scene& scene;
  Registered& source;
  uint64_t number = 0;
};

// The server receives attachments into a handle, each at the next place.
void ReceiveInto(Peer& server, Registered& sink, size_t size) {
  server.hooks.admit = [&, size](Ticket ticket, MessageSizes) {
    const size_t places = sink.bytes.size() / size;
    return Admission{absl::OkStatus(), sink.memory->Slice(ticket % places * size, size).value()};
  };
}

constexpr size_t kMessages = 1000;

TEST_CASE("what is read into user memory is not copied, and the memory registered once") {
  const size_t size = GENERATE(size_t{9'000}, 100'000, 256 * KiB + 1);
  ShmOptions options;
  options.device.read_sink_needs_remote_write = GENERATE(false, true);
  Registered sink(8 * size);
  Scene scene(options, Layout::kTwoLoops, /*start=*/false);
  ReceiveInto(scene.server, sink, size);
  std::atomic<size_t> inside = 0;
  scene.server.hooks.message = [&](Ticket, Message& message) {
    if (sink.Inside(message.attachment.data())) ++inside;
  };
  scene.client.Start();
  scene.server.Start();
  const uint64_t before = CountersOf(scene.server).registrations;
  for (size_t i = 1; i <= kMessages; ++i) {
    scene.client.Send({.attachment = size});
    REQUIRE(scene.arena.RunUntil([&] { return scene.server.received() == i; }));
  }
  CHECK(inside == kMessages);
  CHECK(CountersOf(scene.server).registrations == before + 1);
  CHECK(CountersOf(scene.server).copies == 0);
  CHECK(scene.server.info().counters.payload_bytes_copied == 0);
  CHECK(!sink.memory->in_use());
  scene.arena.Finish();
}

TEST_CASE("user memory is sent eagerly where it lies") {
  const size_t size = GENERATE(size_t{1}, 100, 300, 8000);
  Scene scene;
  Registered source(8 * size);
  Sending send{scene, source};
  send(1, size);
  const uint64_t registered = CountersOf(scene.client).registrations;
  send(kMessages, size);
  CHECK(CountersOf(scene.client).eager_messages == kMessages + 1);
  CHECK(CountersOf(scene.client).registrations == registered);
  CHECK(CountersOf(scene.client).copies == 0);
  CHECK(scene.client.info().counters.payload_bytes_copied == 0);
  scene.arena.Finish();
}

TEST_CASE("where peers can read memory of the device alone, large user memory is copied once",
          "[softnic]") {
  constexpr size_t kSize = 100'000;
  Scene scene;
  Registered source(8 * kSize);
  Sending send{scene, source};
  send(10, kSize);
  CHECK(CountersOf(scene.client).copies == 10);
  CHECK(scene.client.info().counters.payload_bytes_copied == 10 * kSize);
  scene.arena.Finish();
}

// In as many pieces that it is not over when a message is withdrawn a few turns later.
TEST_CASE("a large copy is made a piece a turn, and given up with its message", "[softnic]") {
  constexpr size_t kPieces = 30;
  constexpr size_t kSize = (kPieces - 1) * rdma::kCopyBytes + 1;
  Scene scene;
  Registered source(2 * kSize);
  EventLoop& client = scene.arena.client_loop();
  const auto copied = [&] { return scene.client.info().counters.payload_bytes_copied; };
  const Sent first = scene.client.Send(From(*source.memory, 1, 0, kSize), 1);
  const Sent second = scene.client.Send(From(*source.memory, 2, kSize, kSize), 2);
  uint64_t before = copied();
  for (int turns = 0; copied() < 2 * rdma::kCopyBytes; ++turns) {
    REQUIRE(turns < 100);
    client.RunOnce();
    CHECK(copied() - before <= rdma::kCopyBytes);
    before = copied();
  }
  REQUIRE(copied() < kSize);
  SECTION("all of them arrive") {
    CHECK(scene.arena.RunUntil([&] { return scene.server.received() == 2; }));
    CHECK(copied() == 2 * kSize);
    CHECK(CountersOf(scene.client).copies == 2);
    CHECK(scene.arena.RunUntil([&] { return scene.client.outcomes() == 2; }));
    scene.arena.ExpectAlive(scene.pair);
  }
  SECTION("withdrawn in the middle, it leaves nothing behind, and the next one goes") {
    scene.client.Withdraw(first.ticket);
    CHECK(scene.client.pool()->stats().leased_bytes <= std::bit_ceil(kSize));  // of the next one
    CHECK(scene.arena.RunUntil([&] { return scene.server.Received(second.number); }));
    CHECK(scene.client.outcome(first)->status.code() == absl::StatusCode::kCancelled);
    CHECK(scene.server.received() == 1);
    CHECK(CountersOf(scene.client).rendezvous_messages == 1);
    CHECK(scene.arena.RunUntil([&] { return scene.client.pool()->stats().leased_bytes == 0; }));
  }
  SECTION("closed in the middle") { scene.client.Close(absl::CancelledError("enough")); }
  scene.arena.Finish();
  CHECK(!source.memory->in_use());
}

TransportUnderTest AnywhereSubject(const ShmOptions& options) {
  return {"shm",
          [options](TransportLimits limits) {
            ShmOptions with_limits = options;
            with_limits.rdma.limits = limits;
            const auto make = [device = options.device]() {
              return absl::StatusOr<std::shared_ptr<rdma::Device>>(
                  MakeAnywhereDevice(softnic::MakeSoftnicDevice(device).value()));
            };
            return MakeRdmaTransport("shm", make, with_limits.rdma);
          },
          NewShmName};
}

TEST_CASE("where peers can read any memory, user memory is sent without a copy", "[softnic]") {
  const size_t size = GENERATE(size_t{9'000}, 100'000, 1 * MiB);
  ShmOptions options;
  options.device.windows = GENERATE(true, false);
  options.rdma.isolation = GENERATE(RdmaIsolation::kStrongest, RdmaIsolation::kShared);
  Registered source(8 * size);
  const TransportUnderTest subject = AnywhereSubject(options);
  Arena arena(subject, Layout::kTwoLoops);
  const Pair pair = arena.Connect();
  const uint64_t before = CountersOf(pair.client).registrations;
  const size_t messages = size > 100'000 ? 50 : kMessages;
  for (size_t i = 1; i <= messages; ++i) {
    pair.client.Send(From(*source.memory, i, i % 7 * size, size), i);
    REQUIRE(arena.RunUntil([&] { return pair.server.received() == i; }));
    REQUIRE(arena.RunUntil([&] { return !source.memory->in_use(); }));
  }
  // That it is readable; what is received has memory in the shared domain, too.
  const bool shared = options.rdma.isolation == RdmaIsolation::kShared;
  const uint64_t made = CountersOf(pair.client).registrations - before;
  CHECK((shared ? made <= 4 : made == 1));
  CHECK(CountersOf(pair.client).rendezvous_messages == messages);
  CHECK(CountersOf(pair.client).copies == 0);
  CHECK(pair.client.info().counters.payload_bytes_copied == 0);
  arena.Finish();
}

TEST_CASE("an engine on such a device keeps the promises with user memory", "[softnic]") {
  ShmOptions options;
  options.device.windows = GENERATE(true, false);
  Registered source(kHuge);
  const TransportUnderTest subject = AnywhereSubject(options);
  Arena arena(subject, Layout::kTwoLoops);
  const Pair pair = arena.Connect();
  const Sent sent = pair.client.Send(From(*source.memory, 1, 0, kHuge), 1);
  REQUIRE(arena.RunUntil([&] { return pair.server.TicketOf(1) != 0; }));
  SECTION("withdrawn") { pair.client.Withdraw(sent.ticket); }
  SECTION("abandoned") { pair.server.Abandon(1, absl::CancelledError("no more of this")); }
  SECTION("destroyed") { pair.client.Destroy(); }
  SECTION("the handle goes") { source.memory = nullptr; }
  CHECK(arena.RunUntil([&] { return source.memory == nullptr || !source.memory->in_use(); }));
  arena.Finish();
}

// ---- READs that are out ----

TEST_CASE("user memory that is given up belongs to the transport until its last READ completed",
          "[softnic]") {
  constexpr size_t kSize = 4 * MiB;
  ShmOptions options;
  options.rdma.chunk_bytes = 64 << 10;
  options.rdma.read_depth = 4;
  options.device.faults.faults = {
      {.kind = Fault::Kind::kLateCompletion, .on = rdma::Opcode::kRead, .one_in = 1, .polls = 60}};
  Registered sink(kSize);
  Scene scene(options, Layout::kTwoLoops, /*start=*/false);
  ReceiveInto(scene.server, sink, kSize);
  scene.client.Start();
  scene.server.Start();
  scene.client.Send({.attachment = kSize});
  REQUIRE(scene.arena.RunUntil([&] { return CountersOf(scene.server).reads == 8; }));
  scene.server.Abandon(1, absl::DeadlineExceededError("too late"));
  EventLoop& loop = scene.server.loop();
  REQUIRE(scene.arena.RunUntil([&] { return scene.server.Abandoned(1).has_value(); }));
  CHECK(sink.memory->in_use());  // READs are out
  for (int turns = 0; turns < 100'000 && sink.memory->in_use(); ++turns) loop.RunOnce();
  CHECK(!sink.memory->in_use());
  CHECK(CountersOf(scene.server).reads < kSize / options.rdma.chunk_bytes);
  std::fill(sink.bytes.begin(), sink.bytes.end(), std::byte{0xc5});
  scene.arena.RunFor(kQuiet);
  CHECK(std::all_of(sink.bytes.begin(), sink.bytes.end(),
                    [](std::byte byte) { return byte == std::byte{0xc5}; }));
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

// ---- what stays, and what goes ----

TEST_CASE("a handle that outlives its connections keeps nothing of theirs") {
  Registered sink(100'000);
  ShmOptions options;
  options.rdma.isolation = GENERATE(RdmaIsolation::kStrongest, RdmaIsolation::kShared);
  const auto once = [&] {
    Scene scene(options, Layout::kTwoLoops, /*start=*/false);
    ReceiveInto(scene.server, sink, sink.bytes.size());
    scene.client.Start();
    scene.server.Start();
    scene.client.Send({.attachment = sink.bytes.size()});
    REQUIRE(scene.arena.RunUntil([&] { return scene.server.received() == 1; }));
    scene.arena.Finish();
  };
  once();
  const size_t descriptors = OpenDescriptors();  // a domain has one
  for (int i = 0; i < 20; ++i) once();
  CHECK(OpenDescriptors() == descriptors);
}

TEST_CASE("a connection that outlives handles keeps none of their keys", "[softnic]") {
  constexpr size_t kSize = 20'000;
  ShmOptions options;
  options.device.keys = 40;
  options.device.windows = false;
  Scene scene(options, Layout::kTwoLoops, /*start=*/false);
  std::unique_ptr<Registered> sink;
  size_t inside = 0;
  scene.server.hooks.admit = [&](Ticket, MessageSizes) {
    return Admission{absl::OkStatus(), sink->memory->Slice(0, kSize).value()};
  };
  scene.server.hooks.message = [&](Ticket, Message& message) {
    if (sink->Inside(message.attachment.data())) ++inside;
    message.attachment.Reset();
  };
  scene.client.Start();
  scene.server.Start();
  for (size_t i = 1; i <= 200; ++i) {
    sink = std::make_unique<Registered>(kSize);
    scene.client.Send({.attachment = kSize});
    REQUIRE(scene.arena.RunUntil([&] { return scene.server.received() == i; }));
  }
  CHECK(inside == 200);
  scene.arena.Finish();
}

TEST_CASE("user memory that the device takes no more is replaced by the pool's, and told of",
          "[softnic]") {
  constexpr size_t kSize = 20'000;
  ShmOptions options;
  options.device.keys = 40;
  options.device.windows = false;
  Scene scene(options, Layout::kTwoLoops, /*start=*/false);
  std::vector<std::unique_ptr<Registered>> sinks;
  size_t inside = 0;
  scene.server.hooks.admit = [&](Ticket, MessageSizes) {
    if (sinks.empty()) return Admission{};
    return Admission{absl::OkStatus(), sinks.back()->memory->Slice(0, kSize).value()};
  };
  scene.server.hooks.message = [&](Ticket, Message& message) {
    if (!sinks.empty() && sinks.back()->Inside(message.attachment.data())) ++inside;
  };
  scene.client.Start();
  scene.server.Start();
  scene.client.Send({.attachment = kSize});  // the pools have their memory
  REQUIRE(scene.arena.RunUntil([&] { return scene.server.received() == 1; }));
  for (size_t i = 2; i <= 100; ++i) {
    sinks.push_back(std::make_unique<Registered>(kSize));
    scene.client.Send({.attachment = kSize});
    REQUIRE(scene.arena.RunUntil([&] { return scene.server.received() == i; }));
    CHECK(!sinks.back()->memory->in_use());
  }
  CHECK(inside > 20);
  CHECK(inside < 40);
  // Likewise of what is sent: it is copied.
  Registered source(8000);
  scene.server.Do([&] { scene.server.hooks.admit = nullptr; });
  scene.client.Send(From(*source.memory, 101, 0, 8000), 101);
  CHECK(scene.arena.RunUntil([&] { return scene.server.received() == 101; }));
  scene.arena.Finish();
}

TEST_CASE("slices of one handle are under way on eight threads") {
  constexpr size_t kSize = 50'000;
  constexpr size_t kEach = kSanitized ? 40 : 200;
  ShmOptions options;
  options.rdma.isolation = GENERATE(RdmaIsolation::kStrongest, RdmaIsolation::kShared);
  options.rdma.eager_bytes = GENERATE(uint32_t{8} << 10, uint32_t{64} << 10);
  Registered sink(16 * kSize), source(8 * kSize);
  const TransportUnderTest subject = ShmSubject(options);
  Arena arena(subject, Layout::kThreads);
  std::vector<EventLoop*> servers = {&arena.server_loop()};
  std::vector<EventLoop*> clients = {&arena.client_loop()};
  while (servers.size() < 4) servers.push_back(&arena.NewLoop());
  while (clients.size() < 4) clients.push_back(&arena.NewLoop());
  const Endpoint address = arena.Listen(servers).address();
  std::vector<Pair> pairs;
  for (size_t i = 0; i < 4; ++i) {
    Dial dial(arena, *clients[i], address);
    Peer& client = arena.Adopt("client " + std::to_string(i), *clients[i], dial.Take());
    client.Start();
    pairs.push_back({client, arena.Accepted(/*start=*/false)});
  }
  for (size_t i = 0; i < 4; ++i) {
    // All handles at once, each slice its own place.
    pairs[i].server.hooks.admit = [&, i](Ticket ticket, MessageSizes) {
      const size_t place = i * 4 + ticket % 4;
      return Admission{absl::OkStatus(), sink.memory->Slice(place * kSize, kSize).value()};
    };
    pairs[i].server.Start();
  }
  for (size_t n = 1; n <= kEach; ++n) {
    for (size_t i = 0; i < 4; ++i) {
      pairs[i].client.Send(From(*source.memory, n, (i * 2 + n % 2) * kSize, kSize), n);
    }
    for (const Pair& pair : pairs) {
      REQUIRE(arena.RunUntil([&] { return pair.server.received() == n; }));
    }
    REQUIRE(arena.RunUntil([&] { return !source.memory->in_use(); }));
  }
  arena.Finish();
  CHECK(!sink.memory->in_use());
}

}  // namespace
}  // namespace farcall::testing
