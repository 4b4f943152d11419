// Handshakes with the engine that make no sense, or stop half way.

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "farcall/rpc/bytes.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/transports/rdma/rogue.h"
#include "farcall/tests/transports/rdma/softnic_testing.h"
#include "farcall/transports/rdma/softnic/runtime_folder.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;
using rdma::ConnectionEvent;
using rdma::Parameters;
using std::chrono::seconds;
using Bytes = std::vector<std::byte>;

struct Introduction {
  std::string name;
  std::string rule;  // a part of it
  Bytes private_data;

  // An adapter may pad what is too short, and then it is garbage.
  std::string said() const {
    return OnVerbs() && private_data.size() < rdma::kParametersBytes ? "Farcall" : rule;
  }
};

Bytes Good() {
  const rdma::ParametersBytes good = rdma::EncodeParameters({});
  return {good.begin(), good.end()};
}

Introduction Bent(std::string name, std::string rule, size_t at, uint8_t value) {
  Bytes bytes = Good();
  bytes.at(at) = std::byte{value};
  return {std::move(name), std::move(rule), std::move(bytes)};
}

Introduction Said(std::string name, std::string rule, const Parameters& parameters) {
  const rdma::ParametersBytes bytes = rdma::EncodeParameters(parameters);
  return {std::move(name), std::move(rule), {bytes.begin(), bytes.end()}};
}

std::vector<Introduction> Introductions() {
  constexpr uint32_t kAll = UINT32_MAX;
  const std::string kShort = "has at least 32 bytes";
  const std::string kDepth = "the receive depth of a side is", kBytes = "the size of the receive",
                    kTransfers = "the number of transfers";
  return {
      {"nothing", kShort, {}},
      {"a byte too few", kShort, Bytes(rdma::kParametersBytes - 1, std::byte{'F'})},
      {"garbage", "does not speak Farcall", Bytes(56, std::byte{0xa5})},
      {"zeros", "does not speak Farcall", Bytes(56)},
      Bent("a letter of the magic", "does not speak Farcall", 6, 'l'),
      Bent("version 0", "version 0 of the Farcall RDMA wire", 7, 0),
      Bent("version 2", "version 2 of the Farcall RDMA wire", 7, 2),
      Bent("version 255", "version 255 of the Farcall RDMA wire", 7, 255),
      Bent("the first reserved byte", "reserved bytes of the private data", 20, 1),
      Bent("the last reserved byte", "reserved bytes of the private data", 31, 128),
      Said("no receives", kDepth, {.receive_depth = 0}),
      Said("three receives", kDepth, {.receive_depth = rdma::kMinReceiveDepth - 1}),
      Said("too many receives", kDepth, {.receive_depth = rdma::kMaxReceiveDepth + 1}),
      Said("2^32-1 receives", kDepth, {.receive_depth = kAll}),
      Said("receives of nothing", kBytes, {.receive_bytes = 0}),
      Said("short receives", kBytes, {.receive_bytes = rdma::kMinReceiveBytes - 1}),
      Said("long receives", kBytes, {.receive_bytes = rdma::kMaxReceiveBytes + 1}),
      Said("no transfers", kTransfers, {.max_transfers = 0}),
      Said("too many transfers", kTransfers, {.max_transfers = rdma::kMaxTransfers + 1}),
      Said("2^32-1 transfers", kTransfers, {.max_transfers = kAll}),
  };
}

TEST_CASE("a client whose private data makes no sense is refused, and told why") {
  const hostile::LogLines log;
  Scene scene;
  for (const Introduction& introduction : Introductions()) {
    INFO(introduction.name);
    Rogue rogue(scene.arena);
    rogue.Connect(NameOf(scene.client), introduction.private_data);
    const ConnectionEvent event = rogue.Await(ConnectionEvent::Kind::kRejected);
    CHECK_THAT(log.all(), Contains(introduction.said()));
    // As much of the reason as fits.
    const std::string told = rdma::testing::Text(event.private_data);
    CHECK(told.size() >= 20);
    CHECK_THAT(log.all(), Contains(told));
    scene.arena.ExpectAlive(scene.pair);
  }
  scene.arena.Finish();
}

TEST_CASE("a server whose private data makes no sense is left, and the error says why") {
  Scene scene;
  for (const Introduction& introduction : Introductions()) {
    INFO(introduction.name);
    Rogue rogue(scene.arena);
    Dial dial(scene.arena, scene.arena.client_loop(), rogue.Listen());
    rogue.Answer(introduction.private_data);
    REQUIRE(rogue.RunUntil([&] { return dial.ended() && rogue.gone(); }));
    const absl::Status status = dial.Wait();
    CHECK(status.code() == absl::StatusCode::kUnavailable);
    CHECK_THAT(std::string(status.message()), Contains(introduction.said()) && Contains("://"));
    scene.arena.ExpectAlive(scene.pair);
  }
  scene.arena.Finish();
}

TEST_CASE("what a connection manager pads private data with means nothing") {
  Scene scene;
  Rogue rogue(scene.arena);
  Bytes padded = Good();
  padded.resize(56, std::byte{0xff});
  rogue.Connect(NameOf(scene.client), padded);
  rogue.Await(ConnectionEvent::Kind::kEstablished);
  scene.arena.Accepted();
  scene.arena.Finish();
}

TEST_CASE("a peer whose device serves no READs is refused, and the log says why") {
  const hostile::LogLines log;
  Scene scene;
  Rogue rogue(scene.arena);
  rogue.Connect(NameOf(scene.client), Good(), /*serves_reads=*/0);
  const ConnectionEvent event = rogue.Await(ConnectionEvent::Kind::kRejected);
  CHECK_THAT(log.all(), Contains("serves no READs"));
  CHECK_THAT(std::string(AsView(event.private_data)), Contains("serves no READs"));
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

TEST_CASE("a server that refuses is named, with its reason, and the reason forges no line") {
  Scene scene;
  Rogue rogue(scene.arena);
  Dial dial(scene.arena, scene.arena.client_loop(), rogue.Listen());
  const ConnectionEvent request = rogue.Await(ConnectionEvent::Kind::kConnectRequest);
  const std::string_view reason = "not you\r\n[info] all is well";
  REQUIRE(request.request->Reject(std::as_bytes(std::span(reason))).ok());
  REQUIRE(rogue.RunUntil([&] { return dial.ended(); }));
  const absl::Status status = dial.Wait();
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(status.message()), Contains("refused the connection: not you"));
  CHECK(status.message().find('\n') == std::string::npos);
  scene.arena.Finish();
}

// ---- half-open ----

constexpr int kHalfOpen = 50;

// Some connect and say nothing, others ask and do not take the answer. Beside them a connection is
// made as if they were not there, and in the end they are given up.
void StopHalfWay() {
  const softnic::testing::Folder folder;
  ShmOptions options;
  options.device.runtime_folder = folder.path();
  ManualClock manual;  // goes on only while nothing else does
  Clock& clock = OnVerbs() ? Clock::Steady() : manual;
  const TransportUnderTest subject = ShmSubject(options);
  Arena arena(subject, Layout::kTwoLoops, {}, OnVerbs() ? nullptr : &manual);
  const Pair pair = arena.Connect();
  const std::string name = NameOf(pair.client);
  std::vector<softnic::FileDescriptor> silent;  // of sockets: the software NIC's alone
  std::vector<std::unique_ptr<Rogue>> rogues;
  for (int i = 0; i < kHalfOpen; ++i) {
    if (!OnVerbs()) {
      silent.push_back(softnic::ConnectTo(*softnic::SocketPath(folder.path(), name)).value());
    }
    rogues.push_back(std::make_unique<Rogue>(arena, folder.path()));
    rogues.back()->Connect(name);
  }
  const TimePoint since = clock.Now();
  const Pair healthy = arena.Connect();
  arena.ExpectAlive(healthy);
  CHECK(clock.Now() - since < seconds(1));  // none of them was given up by then
  arena.RunFor(rdma::kAcceptTimeout + seconds(1));
  for (const auto& rogue : rogues) CHECK(rogue->RunUntil([&] { return rogue->gone(); }));
  arena.ExpectAlive(healthy);
  arena.ExpectAlive(pair);
  arena.Finish();
}

TEST_CASE("fifty handshakes that stop half way hold up nobody, and are given up in time") {
  StopHalfWay();  // what is made once is made now
  const size_t descriptors = hostile::Usage::Now().descriptors;
  StopHalfWay();
  CHECK(hostile::Usage::Now().descriptors == descriptors);
}

TEST_CASE("a client that falls silent right after its handshake is the caller's to give up") {
  Scene scene;
  Rogue rogue(scene.arena);
  rogue.Connect(NameOf(scene.client));
  rogue.Await(ConnectionEvent::Kind::kEstablished);
  Peer& victim = scene.arena.Accepted();
  // The active side has not spoken: nothing may leave, and all of it ends by Close.
  for (int i = 0; i < 10; ++i) victim.Send({.body = i % 2 == 0 ? size_t{10} : size_t{100'000}});
  scene.arena.RunFor(kQuiet);
  CHECK(CountersOf(victim).sends == 0);
  victim.Close(absl::DeadlineExceededError("no HELLO"));
  CHECK(scene.arena.RunUntil([&] { return victim.outcomes() == 10; }));
  CHECK(victim.closed().has_value());
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

}  // namespace
}  // namespace farcall::testing
