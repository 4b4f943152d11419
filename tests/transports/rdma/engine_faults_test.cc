// The engine on a device that fails: whatever happens to a work request, each Send ends once, each
// message arrives whole or not at all, both ends learn why, and all memory comes home. Peer and
// Arena check it.

#include <catch2/catch.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "farcall/tests/transports/rdma/engine_testing.h"
#include "farcall/transports/rdma/limits.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;
using rdma::Opcode;
using softnic::Fault;

ShmOptions Failing(Fault fault) {
  ShmOptions options;
  options.rdma.receive_depth = 8;
  options.rdma.chunk_bytes = 16 << 10;
  options.device.faults.faults = {fault};
  return options;
}

// Messages of every kind, both ways, as many as can be under way.
void Load(Scene& scene, size_t messages) {
  for (size_t i = 0; i < messages; ++i) {
    for (Peer* peer : {&scene.client, &scene.server}) {
      const size_t size = i % 4 == 0 ? 100'000 : i % 3 == 0 ? 5000 : 50;
      peer->Send({.body = size});
    }
  }
}

bool Ended(Peer& peer) { return peer.closed().has_value() && peer.outcomes() == peer.sends(); }

struct Failure {
  Fault::Kind kind;
  std::optional<Opcode> on;
  std::vector<uint64_t> nth;
  std::string said;  // by the side whose request it was
};

TEST_CASE("a work request that fails ends the connection, and each Send once", "[softnic]") {
  const auto failure = GENERATE(
      Failure{Fault::Kind::kDrop, Opcode::kSend, {3, 10, 47}, "transport retry counter exceeded"},
      Failure{Fault::Kind::kDrop, Opcode::kRead, {1, 9}, "transport retry counter exceeded"},
      Failure{Fault::Kind::kNotReady, Opcode::kSend, {4, 30}, "receiver not ready"},
      Failure{Fault::Kind::kRefuse, Opcode::kSend, {5}, "remote operation error"},
      Failure{Fault::Kind::kPartialRead, Opcode::kRead, {1, 12}, "remote operation error"},
      Failure{Fault::Kind::kOverrun, {}, {5, 40}, "overrun"},
      Failure{Fault::Kind::kRemoval, {}, {5, 40}, "removed"});
  for (const uint64_t nth : failure.nth) {
    Scene scene(Failing({.kind = failure.kind, .on = failure.on, .nth = nth}));
    Load(scene, 40);
    INFO("the " << nth << "th; " << failure.said);
    CHECK(scene.arena.RunUntil([&] { return Ended(scene.client) && Ended(scene.server); }));
    std::string said;
    for (Peer* peer : {&scene.client, &scene.server}) {
      const absl::Status status = *peer->closed();
      CHECK((status.code() == absl::StatusCode::kUnavailable ||
             status.code() == absl::StatusCode::kInternal));
      CHECK_THAT(std::string(status.message()), Contains(peer->info().peer_address));
      said += std::string(status.message()) + "\n";
    }
    CHECK_THAT(said, Contains(failure.said));
    scene.arena.Finish();
  }
}

TEST_CASE("what is late changes nothing", "[softnic]") {
  const Fault::Kind kind = GENERATE(Fault::Kind::kDelay, Fault::Kind::kLateCompletion);
  Scene scene(Failing({.kind = kind, .one_in = 5, .polls = 30}));
  Load(scene, 100);
  CHECK(scene.arena.RunUntil(
      [&] { return scene.client.received() == 100 && scene.server.received() == 100; }));
  CHECK(!scene.client.closed().has_value());
  scene.arena.Finish();
}

TEST_CASE("one connection's failure is not another's", "[softnic]") {
  const Fault fault{.kind = Fault::Kind::kDrop, .on = Opcode::kSend, .nth = 40};
  Scene scene(Failing(fault));
  const Pair other = scene.arena.Connect();
  for (int i = 0; i < 50; ++i) scene.client.Send({.body = 100});
  CHECK(scene.arena.RunUntil([&] { return Ended(scene.client) && Ended(scene.server); }));
  scene.arena.ExpectAlive(other);
  scene.arena.Finish();
}

TEST_CASE("a completion queue that dies takes its own connections along, and no others",
          "[softnic]") {
  Scene scene(Failing({.kind = Fault::Kind::kOverrun, .nth = 400}));
  std::vector<Pair> others;
  for (int i = 0; i < 19; ++i) others.push_back(scene.arena.Connect());
  for (int i = 0; i < 500; ++i) scene.client.Send({.body = 100});
  CHECK(scene.arena.RunUntil([&] { return Ended(scene.client) && Ended(scene.server); }));
  scene.arena.RunFor(std::chrono::milliseconds(50));
  uint32_t gone = 1;
  for (const Pair& pair : others) {
    if (pair.client.closed().has_value() || pair.server.closed().has_value()) {
      ++gone;
    } else {
      scene.arena.ExpectAlive(pair);
    }
  }
  CHECK(gone == rdma::kConnectionsPerQueue);
  scene.arena.Finish();
}

TEST_CASE("connections that come and go under load leave nothing") {
  Scene scene;
  for (int i = 0; i < (kSanitized ? 30 : 100); ++i) {
    const Pair pair = scene.arena.Connect();
    for (int j = 0; j < 10; ++j) {
      const size_t large = 200'000, small = 20;
      pair.client.Send({.body = j % 2 == 0 ? large : small});
      pair.server.Send({.body = j % 2 == 0 ? small : large});
    }
    switch (i % 4) {
      case 0:
        pair.client.Close(absl::CancelledError("enough"));
        break;
      case 1:
        pair.server.Destroy();
        break;
      case 2:
        pair.client.Destroy();
        pair.server.Destroy();
        break;
      default:
        break;
    }
  }
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

}  // namespace
}  // namespace farcall::testing
