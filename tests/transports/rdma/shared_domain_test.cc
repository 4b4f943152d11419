// RdmaIsolation::kShared: one protection domain and its pools for all connections of a transport.
// What a peer can then read is in rights_test.cc.

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "farcall/tests/transports/rdma/engine_testing.h"

namespace farcall::testing {
namespace {

ShmOptions Shared() {
  ShmOptions options;
  options.rdma.isolation = RdmaIsolation::kShared;
  return options;
}

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// Of shared memory of the software NIC, each piece once however often it is mapped.
size_t SharedMemoryBytes() {
  std::map<std::string, size_t> by_inode;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("farcall-softnic") == std::string::npos) continue;
    std::istringstream words(line);
    std::string range, rights, offset, device, inode;
    words >> range >> rights >> offset >> device >> inode;
    const size_t dash = range.find('-');
    const size_t bytes = std::stoull(range.substr(dash + 1), nullptr, 16) -
                         std::stoull(range.substr(0, dash), nullptr, 16);
    by_inode[inode] = std::max(by_inode[inode], bytes);
  }
  size_t sum = 0;
  for (const auto& [inode, bytes] : by_inode) sum += bytes;
  return sum;
}

TEST_CASE("with one domain for all, the transport's promises are kept") {
  RunTransportConformance(ShmSubject(Shared()));
}

struct Footprint {
  size_t memory = 0;
  size_t pools = 0;
  size_t descriptors = 0;
};

// Of fifty connections that have moved messages of all kinds, both ends of each in this process.
Footprint OfFifty(const ShmOptions& options) {
  const size_t memory = SharedMemoryBytes();
  const size_t descriptors = OpenDescriptors();
  const TransportUnderTest subject = ShmSubject(options);
  Arena arena(subject, Layout::kTwoLoops);
  std::vector<Pair> pairs;
  for (int i = 0; i < 50; ++i) pairs.push_back(arena.Connect());
  for (const Pair& pair : pairs) {
    for (const size_t size : {size_t{100}, 8 * KiB, 60 * KiB, 1 * MiB}) {
      pair.client.Send({.body = size});
      pair.server.Send({.body = size});
    }
    REQUIRE(
        arena.RunUntil([&] { return pair.client.received() == 4 && pair.server.received() == 4; }));
    REQUIRE(
        arena.RunUntil([&] { return pair.client.outcomes() == 4 && pair.server.outcomes() == 4; }));
  }
  std::set<std::shared_ptr<BufferPool>> pools;
  for (const Pair& pair : pairs) pools.insert({pair.client.pool(), pair.server.pool()});
  Footprint footprint{SharedMemoryBytes() - memory, 0, OpenDescriptors() - descriptors};
  for (const auto& pool : pools) footprint.pools += pool->stats().cached_bytes;
  arena.Finish();
  return footprint;
}

TEST_CASE("fifty connections that share a domain are smaller than fifty that do not") {
  ShmOptions apart;
  apart.rdma.isolation = RdmaIsolation::kDomain;
  const Footprint of_apart = OfFifty(apart);
  const Footprint of_shared = OfFifty(Shared());
  INFO("apart: " << of_apart.memory << " bytes that peers map, " << of_apart.pools << " in pools, "
                 << of_apart.descriptors << " descriptors; shared: " << of_shared.memory << ", "
                 << of_shared.pools << ", " << of_shared.descriptors);
  CHECK(of_shared.memory < of_apart.memory / 2);
  CHECK(of_shared.pools < of_apart.pools / 4);
  CHECK(of_shared.descriptors < of_apart.descriptors);
}

TEST_CASE("connections share their pools, and report them once") {
  const TransportUnderTest subject = ShmSubject(Shared());
  Arena arena(subject, Layout::kTwoLoops);
  CHECK(arena.transport().pools().empty());
  const Pair one = arena.Connect();
  const Pair two = arena.Connect();
  CHECK(one.client.pool() == two.server.pool());
  const auto pools = arena.transport().pools();
  REQUIRE(pools.size() == 2);
  CHECK(pools[0] == one.client.pool());
  arena.Finish();
}

// What one connection built another sends without a copy.
TEST_CASE("a payload goes out on any connection without a copy") {
  const TransportUnderTest subject = ShmSubject(Shared());
  Arena arena(subject, Layout::kTwoLoops);
  const Pair one = arena.Connect();
  const Pair two = arena.Connect();
  two.client.Send(MakeMessage(*one.server.pool(), 1, {.body = 1 * MiB}), 1);
  CHECK(arena.RunUntil([&] { return two.server.received() == 1; }));
  CHECK(CountersOf(two.client).copies == 0);
  arena.Finish();
}

TEST_CASE(
    "the transport may go before its connections, and they in any order, with messages held") {
  const TransportUnderTest subject = ShmSubject(Shared());
  Arena arena(subject, Layout::kTwoLoops);
  std::vector<Message> held;
  std::vector<Pair> pairs;
  for (int i = 0; i < 4; ++i) {
    pairs.push_back(arena.Connect(/*start=*/false));
    pairs[i].server.hooks.message = [&](Ticket, Message& message) {
      held.push_back(std::move(message));
    };
    pairs[i].client.Start();
    pairs[i].server.Start();
  }
  const auto exchange = [&](const Pair& pair) {
    const size_t before = pair.server.received();
    pair.client.Send({.body = 100});
    pair.client.Send({.body = 200 * KiB, .attachment = 5000});
    REQUIRE(arena.RunUntil([&] { return pair.server.received() == before + 2; }));
  };
  for (const Pair& pair : pairs) exchange(pair);
  Buffer left = pairs[0].client.pool()->Allocate(100'000).value();
  pairs[0].client.Destroy();
  arena.DropTransport();
  for (size_t i = 1; i < 4; ++i) exchange(pairs[i]);
  pairs[2].server.Destroy();
  exchange(pairs[1]);
  pairs[3].client.Destroy();
  pairs[3].server.Destroy();
  exchange(pairs[1]);
  SECTION("the loops go last") {
    pairs[1].client.Destroy();
    pairs[1].server.Destroy();
  }
  SECTION("peers that are closed go with them") {}
  for (const Message& message : held) CHECK(WhatIsWrong(message).empty());
  std::fill_n(left.data(), left.size(), std::byte{1});
  held.clear();
  left.Reset();
  arena.Finish();
}

TEST_CASE("one peer that goes in the middle of everything leaves the others their domain") {
  Scene scene(Shared());
  for (int i = 0; i < (kSanitized ? 20 : 100); ++i) {
    const Pair pair = scene.arena.Connect();
    for (int j = 0; j < 6; ++j) {
      pair.client.Send({.body = j % 2 == 0 ? size_t{300'000} : size_t{20}});
      scene.client.Send({.body = j % 2 == 0 ? size_t{20} : size_t{100'000}});
    }
    (i % 2 == 0 ? pair.client : pair.server).Destroy();
  }
  const size_t sent = scene.client.sends();
  CHECK(scene.arena.RunUntil([&] { return scene.server.received() == sent; }));
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

TEST_CASE(
    "keys of the one domain that are used up cost the next connection, and say what to raise") {
  ShmOptions options = Shared();
  options.device.keys = 16;
  const TransportUnderTest subject = ShmSubject(options);
  Arena arena(subject, Layout::kTwoLoops);
  const Endpoint address = arena.Listen({&arena.server_loop()}).address();
  std::vector<std::unique_ptr<Connection>> connections;
  absl::Status said;
  while (said.ok() && connections.size() < 20) {
    Dial dial(arena, arena.client_loop(), address);
    said = dial.Wait();
    if (said.ok()) connections.push_back(dial.Take());
  }
  CHECK(!connections.empty());
  CHECK(!said.ok());
  CHECK_THAT(std::string(said.message()), Catch::Matchers::Contains("keys"));
  arena.On(arena.client_loop(), [&] { connections.clear(); });
  arena.Finish();
}

}  // namespace
}  // namespace farcall::testing
