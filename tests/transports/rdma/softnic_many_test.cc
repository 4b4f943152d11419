// The software NIC with hundreds of connections on one queue: none is forgotten, none leaves
// anything behind, and what one costs in memory is bounded.
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "farcall/tests/transports/rdma/softnic_crowd.h"

namespace farcall::softnic::testing {
namespace {

using namespace rdma;
using Kind = ConnectionEvent::Kind;

TEST_CASE("a message on any of many connections is found, however long that one said nothing") {
  constexpr size_t kConnections = 300;
  Crowd crowd({.connections = kConnections});
  std::minstd_rand random(7);
  const bool beside_a_busy_one = GENERATE(false, true);
  for (int i = 0; i < 1000; ++i) crowd.passive.Turn();  // all come to rest
  for (int i = 0; i < 500; ++i) {
    const size_t from = 1 + random() % (kConnections - 1);
    if (beside_a_busy_one) {
      crowd.active.Send(0, 8);
      while (crowd.passive.Turn() == 0) {
      }
    }
    crowd.active.Send(from, 8);
    size_t polls = 0;
    while (crowd.passive.Turn() == 0) REQUIRE(++polls < 2 * kConnections);
    CHECK(crowd.passive.last == from);
    // The sender's completions come, too, though it may have come to rest meanwhile.
    for (auto turns = random() % 400; turns != 0; --turns) crowd.active.Turn();
  }
}

TEST_CASE("who sleeps on many connections is woken by each message, and by no other's") {
  constexpr size_t kConnections = 60;
  constexpr uint64_t kMessages = kSanitized ? 500 : 4000;
  Crowd crowd({.connections = kConnections, .rnr_retry = 7});
  std::atomic<uint64_t> received{0};
  std::thread sender([&] {
    std::minstd_rand random(11);
    for (uint64_t i = 0; i < kMessages; ++i) {
      // Two are on their way at times.
      while (i > received.load(std::memory_order_acquire) + 1) {
        crowd.active.Turn();
        std::this_thread::yield();
      }
      for (auto spin = random() % 3000; spin != 0; --spin) asm volatile("");
      crowd.active.Send(random() % kConnections, 8);
      for (auto turns = random() % 300; turns != 0; --turns) crowd.active.Turn();
    }
    while (received.load(std::memory_order_acquire) != kMessages) {
      crowd.active.Turn();
      std::this_thread::yield();
    }
  });
  std::minstd_rand random(13);
  bool lost = false;
  while (received != kMessages && !lost) {
    if (const size_t now = crowd.passive.Turn(); now != 0) {
      received.fetch_add(now, std::memory_order_release);
      // Long enough, at times, for all to come to rest without having slept.
      for (auto turns = random() % 8 == 0 ? 300 : 0; turns != 0; --turns) {
        received.fetch_add(crowd.passive.Turn(), std::memory_order_release);
      }
      continue;
    }
    crowd.passive.queue->Drain();
    if (!crowd.passive.queue->Arm()) continue;
    if (const size_t now = crowd.passive.Turn(); now != 0) {
      received.fetch_add(now, std::memory_order_release);
      continue;
    }
    if (received != kMessages) lost = !Readable(crowd.passive.queue->fd(), 10'000);
  }
  CHECK_FALSE(lost);
  received = kMessages;
  sender.join();
}

TEST_CASE("a queue pair with a queue for each direction is noticed on the one that sleeps") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  rdma::testing::End passive(*device, {});
  rdma::testing::End active(*device, {});
  const auto sends = *device->CreateCompletionQueue(64);
  const auto listener = *device->Listen(*passive.channel, "two");
  auto id = *device->Resolve(*active.channel, "two");
  active.NextEvent(passive);
  active.id = std::move(id);
  active.pair = *active.id->CreateQueuePair(
      *active.domain, {.send_queue = sends.get(), .receive_queue = active.queue.get()});
  REQUIRE(active.id->Connect({}).ok());
  passive.MakePair(std::move(passive.NextEvent(active).request));
  REQUIRE(passive.id->Accept({}).ok());
  active.NextEvent(passive);
  passive.NextEvent(active);
  for (uint64_t i = 0; i < 4; ++i) passive.Receive(i, 0, 64);
  for (uint64_t i = 0; i < 4; ++i) active.Receive(i, 4096, 64);
  for (int i = 0; i < 1000; ++i) active.Turn();
  Completion completion;
  for (uint64_t i = 0; i < 3; ++i) {
    active.Send(i, 0, 8);
    REQUIRE(sends->Arm());
    CHECK(passive.NextCompletion(passive).wr_id == i);
    REQUIRE(rdma::testing::TurnUntil(passive, passive, [&] { return Readable(sends->fd(), 0); }));
    sends->Drain();
    REQUIRE(sends->Poll(std::span(&completion, 1)) == 1);
    CHECK(completion.wr_id == i);
    passive.Send(i, 0, 8);
    CHECK(active.NextCompletion(passive).opcode == Opcode::kReceive);
    CHECK(passive.NextCompletion(active).opcode == Opcode::kSend);
  }
}

TEST_CASE("of many regions that were allocated at once the last can be read at once") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  rdma::testing::Pair pair(*device, "regions");
  std::vector<std::unique_ptr<MemoryRegion>> regions;
  regions.reserve(2000);
  for (int i = 0; i < 200; ++i) {
    regions.push_back(*pair.passive.domain->Allocate(4096, {.remote_read = true}));
  }
  const MemoryRegion& last = *regions.back();
  pair.active.Read(1, 0, 64, reinterpret_cast<uintptr_t>(last.memory().data()), last.rkey());
  CHECK(pair.active.NextCompletion(pair.passive).status == CompletionStatus::kSuccess);
}

size_t MappingsOf(const char* name) {
  size_t count = 0;
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[4096];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    count += std::strstr(line, name) != nullptr ? 1 : 0;
  }
  std::fclose(maps);
  return count;
}

TEST_CASE(
    "a peer that stands still while memory comes and goes knows what is left when it goes on") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  rdma::testing::Pair pair(*device, "regions");
  std::vector<std::unique_ptr<MemoryRegion>> regions;
  regions.reserve(2000);
  const auto allocate = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      regions.push_back(*pair.passive.domain->Allocate(4096, {.remote_read = true}));
    }
  };
  const auto status_of_read = [&](size_t region) {
    const MemoryRegion& of = *regions[region];
    pair.active.Read(1, 0, 64, reinterpret_cast<uintptr_t>(of.memory().data()), of.rkey());
    return pair.active.NextCompletion(pair.passive).status;
  };
  for (int round = 0; round < 3; ++round) {
    allocate(1000);
    regions.erase(regions.begin() + 100, regions.end() - 200);
    CHECK(status_of_read(regions.size() - 1) == CompletionStatus::kSuccess);
    CHECK(status_of_read(regions.size() - 200) == CompletionStatus::kSuccess);
    CHECK(status_of_read(0) == CompletionStatus::kSuccess);
    CHECK(pair.passive.events.empty());
  }
  for (int i = 0; i < 1000; ++i) {
    pair.active.Turn();
    pair.passive.Turn();
  }
  // As many are mapped here as there are, once by each side; and each side's first region.
  CHECK(MappingsOf("farcall-softnic-slab") == 2 * (regions.size() + 2));
}

TEST_CASE("a read of memory whose notice never comes ends") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  rdma::testing::Pair pair(*device, "regions");
  std::vector<std::unique_ptr<MemoryRegion>> regions;
  regions.reserve(2000);
  for (int i = 0; i < 1000; ++i) {
    regions.push_back(*pair.passive.domain->Allocate(4096, {.remote_read = true}));
  }
  const MemoryRegion& last = *regions.back();
  pair.active.Read(1, 0, 64, reinterpret_cast<uintptr_t>(last.memory().data()), last.rkey());
  // The passive side stands still for good.
  CHECK(pair.active.NextCompletion(pair.active).status == CompletionStatus::kRetryExceeded);
}

TEST_CASE("a completion queue as deep as all its queues together holds all their completions") {
  constexpr uint32_t kSends = 128, kReceives = 64, kConnections = 64;
  const bool enough = GENERATE(true, false);
  Crowd crowd({.connections = kConnections,
               .send_depth = kSends,
               .receive_depth = kReceives,
               .completion_depth = kConnections * (kSends + kReceives) - (enough ? 0 : 1),
               .rnr_retry = 7,
               .receives = false});
  for (size_t i = 0; i < kConnections; ++i) {
    for (uint32_t slot = 0; slot < kReceives; ++slot) crowd.active.Receive(i, slot);
    for (uint32_t n = 0; n < kSends; ++n) crowd.active.Send(i, 8);
  }
  for (Connection& connection : crowd.active.connections) connection.pair->Fail();
  CHECK(crowd.active.queue->status().ok() == enough);
  std::vector<Completion> done(kConnections * (kSends + kReceives) + 1);
  const size_t count = crowd.active.queue->Poll(done);
  if (enough) {
    CHECK(count == done.size() - 1);
    CHECK(crowd.active.queue->Poll(done) == 0);
  } else {
    CHECK(crowd.active.queue->status().message().find("12287 completions") != std::string::npos);
    CHECK(Readable(crowd.active.queue->fd(), 0));
  }
  for (const Connection& connection : crowd.active.connections) {
    CHECK(connection.pair->state() == QueuePairState::kError);
  }
}

// What this process holds.
struct Holdings {
  size_t descriptors = 0, mappings = 0, heap_bytes = 0;

  static Holdings Now() {
    Holdings now;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      ++now.descriptors;
    }
    now.mappings = MappingsOf("");
    now.heap_bytes = ::mallinfo2().uordblks;
    return now;
  }
};

TEST_CASE("1,000 connections come and go, and nothing is left of them") {
  Crowd crowd({});
  Holdings before;
  for (int i = 0; i < 1000; ++i) {
    if (i == 50) before = Holdings::Now();
    crowd.Connect();
    crowd.active.Send(0, 8);
    while (crowd.passive.Turn() == 0) {
    }
    Completion sent;
    while (crowd.active.queue->Poll(std::span(&sent, 1)) == 0) {
    }
    Side& leaves = i % 2 == 0 ? crowd.active : crowd.passive;
    Side& stays = i % 2 == 0 ? crowd.passive : crowd.active;
    if (i % 3 == 0) leaves.connections.back().id->Disconnect();
    leaves.connections.clear();
    stays.Await(Kind::kDisconnected);
    stays.connections.clear();
    while (leaves.channel->Next().has_value()) {
    }
  }
  const Holdings after = Holdings::Now();
  CHECK(after.descriptors == before.descriptors);
  if (kSanitized) return;
  CHECK(after.mappings <= before.mappings + 4);
  CHECK(after.heap_bytes <= before.heap_bytes + (size_t{64} << 10));
}

size_t ResidentBytes() {
  long pages = 0, resident = 0;
  std::FILE* statm = std::fopen("/proc/self/statm", "r");
  REQUIRE(std::fscanf(statm, "%ld %ld", &pages, &resident) == 2);
  std::fclose(statm);
  return static_cast<size_t>(resident) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// Both sides live here, and map each other's rings: what is resident is that of two sides.
TEST_CASE("the memory of a connection is bounded, idle and after traffic") {
  constexpr uint32_t kEager = 8192, kReceives = 64;
  constexpr size_t kConnections = 40;
  constexpr size_t kMost = kReceives * size_t{kEager} * 3 / 2 + (size_t{256} << 10);
  Crowd crowd({.connections = 10, .send_depth = 128, .receive_depth = kReceives, .eager = kEager});
  const size_t before = ResidentBytes();
  for (size_t i = 0; i < kConnections; ++i) crowd.Connect();
  const size_t idle = (ResidentBytes() - before) / kConnections / 2;
  const auto talk = [](Side& from, Side& to, size_t connection) {
    for (uint32_t n = 0; n < 300; ++n) {
      from.Send(connection, n % 2 == 0 ? kEager : 8);
      while (to.Turn() == 0) {
      }
      from.Turn();
    }
  };
  for (size_t i = 10; i < 10 + kConnections; ++i) {
    talk(crowd.active, crowd.passive, i);
    talk(crowd.passive, crowd.active, i);
  }
  const size_t warm = (ResidentBytes() - before) / kConnections / 2;
  INFO("a connection's side: " << idle << " bytes idle, " << warm << " after traffic");
  if (kSanitized) return;
  CHECK(idle < size_t{256} << 10);
  CHECK(warm < kMost);
}

}  // namespace
}  // namespace farcall::softnic::testing
