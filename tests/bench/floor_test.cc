#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/bench/floor/client.h"
#include "farcall/bench/floor/message.h"
#include "farcall/bench/floor/message_reader.h"
#include "farcall/bench/floor/server.h"
#include "farcall/bench/floor/shared_bulk.h"
#include "farcall/bench/floor/shared_echo.h"
#include "farcall/bench/floor/shared_memory.h"
#include "farcall/bench/floor/shared_slots.h"
#include "farcall/bench/floor/stream.h"
#include "farcall/bench/measure/child_process.h"

namespace farcall::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Workload Short(Case kind, size_t bytes, int outstanding) {
  return {.kind = kind,
          .bytes = bytes,
          .outstanding = outstanding,
          .duration = milliseconds(20),
          .warm_up = milliseconds(5)};
}

TEST_CASE("every workload runs against a server process, in both modes") {
  const Mode mode = GENERATE(Mode::kEvent, Mode::kBusy);
  CAPTURE(NameOf(mode));
  const absl::StatusOr<ChildProcess> server =
      ChildProcess::Start({.command = {FARCALL_FLOOR_SERVER, NameOf(mode)},
                           .core = {},
                           .ready_prefix = "listening on "});
  REQUIRE(server.ok());
  const auto port = static_cast<uint16_t>(std::stoi(server->ready_line()));
  // All on one connection: what one workload leaves behind must not disturb the next.
  absl::StatusOr<FloorClient> client = FloorClient::Connect(port, mode, seconds(10));
  REQUIRE(client.ok());
  for (const Workload& workload :
       {Short(Case::kLatency, 16, 1), Short(Case::kLatency, 32, 1),
        Short(Case::kLatency, 1 << 10, 1), Short(Case::kLatency, 64 << 10, 1),
        Short(Case::kLatency, 1 << 20, 1), Short(Case::kLatency, 16 << 20, 1),
        Short(Case::kThroughput, 32, 64), Short(Case::kThroughput, 100, 5000),
        Short(Case::kBulkRequest, 4 << 10, 8), Short(Case::kBulkRequest, 64 << 10, 8),
        Short(Case::kBulkRequest, 1 << 20, 8), Short(Case::kBulkReply, 4 << 10, 8),
        Short(Case::kBulkReply, 100'000, 8), Short(Case::kBulkReply, 1 << 20, 8),
        Short(Case::kLatency, 32, 1)}) {
    CAPTURE(NameOf(workload.kind), workload.bytes);
    const absl::StatusOr<Measurement> measurement = client->Run(workload, server->pid());
    REQUIRE(measurement.ok());
    CHECK(measurement->latency.count() > 0);
    CHECK(measurement->first_error.empty());
    CHECK(measurement->errors == 0);
    CHECK(measurement->elapsed_ns >= 20'000'000);
    CHECK(measurement->cpu_ns > 0);
    const auto longest_ns = static_cast<uint64_t>(measurement->latency.Quantile(1));
    CHECK(longest_ns > 0);
  }
}

TEST_CASE("round trips of every size run in shared memory") {
  const absl::StatusOr<ChildProcess> server = ChildProcess::Start(
      {.command = {FARCALL_FLOOR_SERVER, "shm"}, .core = {}, .ready_prefix = "listening on "});
  REQUIRE(server.ok());
  absl::StatusOr<SharedMemory> memory = SharedMemory::Open(server->ready_line());
  REQUIRE(memory.ok());
  for (const Workload& workload :
       {Short(Case::kLatency, 16, 1), Short(Case::kLatency, 48, 1), Short(Case::kLatency, 49, 1),
        Short(Case::kLatency, 1 << 20, 1), Short(Case::kLatency, 32, 1)}) {
    CAPTURE(workload.bytes);
    const absl::StatusOr<Measurement> measurement =
        RunShared(*memory, workload, server->pid(), seconds(10));
    REQUIRE(measurement.ok());
    CHECK(measurement->latency.count() > 0);
    CHECK(measurement->first_error.empty());
    CHECK(measurement->elapsed_ns >= 20'000'000);
    CHECK(measurement->cpu_ns > 0);
  }
}

TEST_CASE("a wrong answer in shared memory is counted, a missing one ends the run") {
  absl::StatusOr<SharedMemory> ours = SharedMemory::Create();
  REQUIRE(ours.ok());
  absl::StatusOr<SharedMemory> theirs = SharedMemory::Open(ours->path());
  REQUIRE(theirs.ok());
  // Compared in full, the warm-up, measured, compared in full.
  const size_t spoiled = GENERATE(size_t{0}, size_t{8}, size_t{20}, size_t{31});
  const int answers = GENERATE(3, 4);
  CAPTURE(spoiled, answers);
  std::thread server([&] {
    for (int i = 0; i < answers; ++i) {
      const absl::StatusOr<FloorHeader> request = ours->Await(seconds(10));
      if (!request.ok()) return;
      const std::span<uint8_t> reply = ours->Body(request->body_bytes);
      std::memcpy(reply.data(), ours->Received(*request).data(), reply.size());
      if (i == 0 || i == 2) reply[spoiled] ^= uint8_t{1};
      ours->Send({.body_bytes = request->body_bytes, .reply_bytes = request->body_bytes});
    }
  });
  Workload workload = Short(Case::kLatency, 32, 1);
  workload.warm_up = workload.duration = {};
  const absl::StatusOr<Measurement> measurement =
      RunShared(*theirs, workload, getpid(), seconds(1));
  server.join();
  if (answers == 3) {
    CHECK(absl::IsDeadlineExceeded(measurement.status()));
  } else {
    REQUIRE(measurement.ok());
    // A byte between the stamps is seen where replies are compared in full.
    CHECK(measurement->errors == (spoiled == 0 || spoiled == 31 ? 2 : 1));
    CHECK_FALSE(measurement->first_error.empty());
  }
}

TEST_CASE("bulk workloads run in shared slots, as many calls at once as there are slots") {
  for (const Workload& workload :
       {Short(Case::kBulkRequest, 16, 8), Short(Case::kBulkRequest, 17, 1),
        Short(Case::kBulkRequest, 5000, 3), Short(Case::kBulkRequest, 1 << 20, 8),
        Short(Case::kBulkReply, 16, 8), Short(Case::kBulkReply, 17, 1),
        Short(Case::kBulkReply, 5000, 64), Short(Case::kBulkReply, 1 << 20, 8)}) {
    CAPTURE(NameOf(workload.kind), workload.bytes, workload.outstanding);
    const SharedSlots::Shape shape{.slots = static_cast<size_t>(workload.outstanding),
                                   .body_bytes = workload.bytes};
    const absl::StatusOr<ChildProcess> server = ChildProcess::Start(
        {.command = {FARCALL_FLOOR_SERVER, "shm-bulk", std::to_string(shape.slots),
                     std::to_string(shape.body_bytes)},
         .core = {},
         .ready_prefix = "listening on "});
    REQUIRE(server.ok());
    absl::StatusOr<SharedSlots> slots = SharedSlots::Open(server->ready_line(), shape);
    REQUIRE(slots.ok());
    const absl::StatusOr<Measurement> measurement =
        RunBulk(*slots, workload, server->pid(), seconds(10));
    REQUIRE(measurement.ok());
    CHECK(measurement->latency.count() > 0);
    CHECK(measurement->first_error.empty());
    CHECK(measurement->errors == 0);
    CHECK(measurement->elapsed_ns >= 20'000'000);
    CHECK(measurement->cpu_ns > 0);
  }
}

// A server in this process that answers `answers` calls of a run with 2 slots and no measured part:
// two compared in full, three of the run, two compared in full. `spoil` has its way with a reply.
absl::StatusOr<Measurement> RunBulkAgainst(
    int answers, const std::function<void(uint64_t, std::span<uint8_t>)>& spoil) {
  const SharedSlots::Shape shape{.slots = 2, .body_bytes = 1000};
  absl::StatusOr<SharedSlots> ours = SharedSlots::Create(shape);
  REQUIRE(ours.ok());
  absl::StatusOr<SharedSlots> theirs = SharedSlots::Open(ours->path(), shape);
  REQUIRE(theirs.ok());
  std::thread server([&] {
    for (uint64_t call = 1; call <= static_cast<uint64_t>(answers); ++call) {
      const absl::StatusOr<SharedSlots::Word> request = ours->AwaitRequest(call, seconds(10));
      if (!request.ok()) return;
      const std::span<uint8_t> reply = ours->Body(call, request->header.reply_bytes);
      FillPattern(reply);
      SetStamps(reply, request->stamps);
      spoil(call, reply);
      const auto bytes = static_cast<uint32_t>(reply.size());
      ours->SendReply(call, {{.body_bytes = bytes, .reply_bytes = bytes}, request->stamps});
    }
  });
  Workload workload = Short(Case::kBulkReply, shape.body_bytes, 2);
  workload.warm_up = workload.duration = {};
  absl::StatusOr<Measurement> measurement = RunBulk(*theirs, workload, getpid(), seconds(1));
  server.join();
  return measurement;
}

TEST_CASE("a wrong bulk reply in shared slots is counted, a missing one ends the run") {
  SECTION("honest") {
    const absl::StatusOr<Measurement> measurement =
        RunBulkAgainst(7, [](uint64_t, std::span<uint8_t>) {});
    REQUIRE(measurement.ok());
    CHECK(measurement->errors == 0);
  }
  SECTION("missing") {
    const absl::Status status = RunBulkAgainst(6, [](uint64_t, std::span<uint8_t>) {}).status();
    CHECK(absl::IsDeadlineExceeded(status));
  }
  SECTION("stamps are looked at always, the rest of the first two and the last two replies") {
    const size_t spoiled = GENERATE(size_t{0}, size_t{500}, size_t{999});
    CAPTURE(spoiled);
    const absl::StatusOr<Measurement> measurement =
        RunBulkAgainst(7, [&](uint64_t, std::span<uint8_t> reply) { reply[spoiled] ^= 1; });
    REQUIRE(measurement.ok());
    CHECK(measurement->errors == (spoiled == 500 ? 4 : 7));
    CHECK_FALSE(measurement->first_error.empty());
  }
}

TEST_CASE("shared slots refuse shapes and lengths that cannot be") {
  for (const SharedSlots::Shape& shape : {SharedSlots::Shape{0, 16},
                                          {SharedSlots::kMaxSlots + 1, 16},
                                          {1, 15},
                                          {1, size_t{1} << 30}}) {
    CHECK(absl::IsInvalidArgument(SharedSlots::Create(shape).status()));
  }
  const absl::StatusOr<SharedSlots> made = SharedSlots::Create({.slots = 2, .body_bytes = 100});
  REQUIRE(made.ok());
  const absl::StatusOr<SharedSlots> other =
      SharedSlots::Open(made->path(), {.slots = 3, .body_bytes = 100});
  CHECK(absl::IsInvalidArgument(other.status()));
  for (const FloorHeader header :
       {FloorHeader{0, 16}, FloorHeader{16, 0}, FloorHeader{101, 16}, FloorHeader{16, 101}}) {
    absl::StatusOr<SharedSlots> theirs =
        SharedSlots::Open(made->path(), {.slots = 2, .body_bytes = 100});
    REQUIRE(theirs.ok());
    static uint64_t call = 0;
    theirs->SendRequest(++call, {header, {}});
    CHECK(absl::IsInvalidArgument(theirs->AwaitRequest(call, seconds(1)).status()));
  }
}

TEST_CASE("a server serves one client after the other") {
  const absl::StatusOr<ChildProcess> server = ChildProcess::Start(
      {.command = {FARCALL_FLOOR_SERVER, "event"}, .core = {}, .ready_prefix = "listening on "});
  REQUIRE(server.ok());
  const auto port = static_cast<uint16_t>(std::stoi(server->ready_line()));
  for (int i = 0; i < 3; ++i) {
    absl::StatusOr<FloorClient> client = FloorClient::Connect(port, Mode::kEvent, seconds(10));
    REQUIRE(client.ok());
    CHECK(client->Run(Short(Case::kLatency, 32, 1), server->pid()).ok());
  }
}

// A peer in this process that does on the first connection whatever a test wants.
class Peer {
 public:
  explicit Peer(std::function<void(Stream&)> behave) {
    absl::StatusOr<FileDescriptor> listener = ListenOnLoopback(0);
    REQUIRE(listener.ok());
    port_ = PortOf(*listener).value_or(0);
    thread_ = std::thread([listener = *std::move(listener), behave = std::move(behave)] {
      absl::StatusOr<Stream> stream = Stream::Accept(listener, Mode::kEvent, seconds(10));
      if (stream.ok()) behave(*stream);
    });
  }
  ~Peer() { thread_.join(); }

  uint16_t port() const { return port_; }

 private:
  uint16_t port_ = 0;
  std::thread thread_;
};

absl::StatusOr<Measurement> RunAgainst(const Peer& peer, const Workload& workload) {
  absl::StatusOr<FloorClient> client = FloorClient::Connect(peer.port(), Mode::kEvent, seconds(1));
  if (!client.ok()) return client.status();
  return client->Run(workload, getpid());
}

// Answers each request with itself after `spoil` has had its way with it.
std::function<void(Stream&)> EchoSpoiled(std::function<void(uint64_t, FloorMessage)> spoil) {
  return [spoil = std::move(spoil)](Stream& stream) {
    MessageReader reader;
    for (uint64_t number = 0; true;) {
      absl::StatusOr<std::optional<FloorMessage>> request = reader.Next();
      if (!request.ok()) return;
      if (*request) {
        spoil(number++, **request);
        if (!stream.Write((*request)->bytes()).ok()) return;
      } else if (!reader.Fill(stream).ok()) {
        return;
      }
    }
  };
}

TEST_CASE("an honest peer gives no errors, a wrong one does") {
  const Workload workload = Short(Case::kLatency, 64, 1);
  SECTION("honest") {
    const Peer peer(EchoSpoiled([](uint64_t, FloorMessage) {}));
    const absl::StatusOr<Measurement> measurement = RunAgainst(peer, workload);
    REQUIRE(measurement.ok());
    CHECK(measurement->errors == 0);
  }
  SECTION("one wrong first stamp in the measured part") {
    const Peer peer(EchoSpoiled([](uint64_t number, FloorMessage message) {
      if (number % 100 != 99) return;
      const Stamps stamps = StampsOf(message.body());
      SetStamps(message.body(), {~stamps.first, stamps.last});
    }));
    const absl::StatusOr<Measurement> measurement = RunAgainst(peer, workload);
    REQUIRE(measurement.ok());
    CHECK(measurement->errors > 0);
    CHECK_FALSE(measurement->first_error.empty());
  }
  SECTION("a wrong last stamp") {
    const Peer peer(EchoSpoiled([](uint64_t, FloorMessage message) {
      SetStamps(message.body(), {StampsOf(message.body()).first, 0});
    }));
    const absl::StatusOr<Measurement> measurement = RunAgainst(peer, workload);
    REQUIRE(measurement.ok());
    CHECK(measurement->latency.count() == 0);
    CHECK(measurement->errors > 0);
  }
  SECTION("a byte in the middle, which full comparison finds") {
    const Peer peer(
        EchoSpoiled([](uint64_t, FloorMessage message) { message.body()[30] ^= uint8_t{1}; }));
    const absl::StatusOr<Measurement> measurement = RunAgainst(peer, workload);
    REQUIRE(measurement.ok());
    CHECK(measurement->errors > 0);
  }
}

TEST_CASE("a reply of another length is wrong") {
  // The honest server answers what the header asks for; the client wanted 16 bytes.
  const Peer peer(EchoSpoiled([](uint64_t, FloorMessage) {}));
  const absl::StatusOr<Measurement> measurement =
      RunAgainst(peer, Short(Case::kBulkRequest, 1000, 1));
  REQUIRE(measurement.ok());
  CHECK(measurement->latency.count() == 0);
  CHECK(measurement->errors > 0);
}

TEST_CASE("a silent, a vanishing and a mad server end the run in time") {
  const Workload workload = Short(Case::kLatency, 32, 1);
  SECTION("silent") {
    const Peer peer([](Stream& stream) {
      std::array<uint8_t, 1024> bytes;
      while (stream.Read(bytes).value_or(0) > 0) {
      }
    });
    const Mode mode = GENERATE(Mode::kEvent, Mode::kBusy);
    absl::StatusOr<FloorClient> client = FloorClient::Connect(peer.port(), mode, seconds(1));
    REQUIRE(client.ok());
    CHECK(absl::IsDeadlineExceeded(client->Run(workload, getpid()).status()));
    client = absl::UnavailableError("closed");
  }
  SECTION("vanishing") {
    const Peer peer([](Stream& stream) {
      std::array<uint8_t, 1024> bytes;
      if (!stream.Read(bytes).ok()) return;
    });
    CHECK(absl::IsUnavailable(RunAgainst(peer, workload).status()));
  }
  SECTION("mad") {
    const Peer peer([](Stream& stream) {
      std::array<uint8_t, 1024> bytes;
      bytes.fill(0xff);
      if (!stream.Write(bytes).ok()) return;
      while (stream.Read(bytes).value_or(0) > 0) {
      }
    });
    CHECK(absl::IsInvalidArgument(RunAgainst(peer, workload).status()));
  }
  SECTION("not there") {
    uint16_t port = 0;
    {
      const absl::StatusOr<FileDescriptor> listener = ListenOnLoopback(0);
      REQUIRE(listener.ok());
      port = PortOf(*listener).value_or(0);
    }
    const absl::Status status = FloorClient::Connect(port, Mode::kEvent, seconds(1)).status();
    CHECK_FALSE(status.ok());
    CHECK(std::string(status.message()).find(std::to_string(port)) != std::string::npos);
  }
}

TEST_CASE("the server refuses impossible lengths") {
  for (const FloorHeader header :
       {FloorHeader{0, 16}, FloorHeader{16, 0}, FloorHeader{~0u, 16}, FloorHeader{16, ~0u}}) {
    absl::Status served;
    {
      const Peer peer([&](Stream& stream) { served = ServeFloor(stream); });
      absl::StatusOr<Stream> stream = Stream::Connect(peer.port(), Mode::kEvent, seconds(5));
      REQUIRE(stream.ok());
      std::array<uint8_t, sizeof(header)> bytes;
      memcpy(bytes.data(), &header, sizeof(header));
      REQUIRE(stream->Write(bytes).ok());
      CHECK(stream->Read(bytes).value_or(0) == 0);
    }
    CHECK(absl::IsInvalidArgument(served));
  }
}

// Messages of mixed sizes, echoed and built, cut into writes of any length, are answered in order.
TEST_CASE("the server answers in order, however the requests are cut") {
  const std::vector<FloorHeader> headers = {
      {500, 16}, {24, 24},      {500, 16},     {16, 16}, {32, 32},         {1000, 16}, {1000, 16},
      {40, 40},  {16, 200'000}, {300'000, 16}, {16, 17}, {70'000, 70'000}, {16, 16}};
  std::vector<uint8_t> requests;
  for (size_t i = 0; i < headers.size(); ++i) {
    std::vector<uint8_t> request(FloorMessage::SizeFor(headers[i].body_bytes));
    FloorMessage message(request);
    message.set_header(headers[i]);
    FillPattern(message.body());
    SetStamps(message.body(), StampsFor(i));
    requests.insert(requests.end(), request.begin(), request.end());
  }
  const size_t cut = GENERATE(size_t{7}, size_t{1000}, size_t{65'536}, size_t{1'000'000});
  CAPTURE(cut);
  const Peer peer([](Stream& stream) { (void)ServeFloor(stream); });
  absl::StatusOr<Stream> stream = Stream::Connect(peer.port(), Mode::kEvent, seconds(5));
  REQUIRE(stream.ok());
  std::thread writer([&] {
    for (size_t at = 0; at < requests.size(); at += cut) {
      const size_t bytes = std::min(cut, requests.size() - at);
      if (!stream->Write(std::span(requests).subspan(at, bytes)).ok()) return;
    }
  });
  MessageReader reader;
  size_t i = 0;
  while (i < headers.size()) {
    absl::StatusOr<std::optional<FloorMessage>> reply = reader.Next();
    if (!reply.ok() || (!*reply && !reader.Fill(*stream).ok())) break;
    if (!*reply) continue;
    CAPTURE(i);
    CHECK((*reply)->body().size() == headers[i].reply_bytes);
    CHECK(StampsOf((*reply)->body()) == StampsFor(i));
    CHECK(HoldsPattern((*reply)->body()));
    ++i;
  }
  writer.join();
  CHECK(i == headers.size());
}

}  // namespace
}  // namespace farcall::bench
