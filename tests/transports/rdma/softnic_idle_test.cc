// Connections of the software NIC that came to rest: what reaches them, and that it does.

#include <atomic>
#include <random>
#include <thread>

#include "farcall/tests/transports/rdma/softnic_crowd.h"

namespace farcall::softnic::testing {
namespace {

using namespace rdma;

// Some more than a Poll looks at.
constexpr size_t kConnections = 100;
constexpr size_t kOne = 61;

void Rest(Side& side) {
  for (int i = 0; i < 300; ++i) Must(side.Turn() == 0);
}

TEST_CASE("who comes to rest before it ever slept gets its doorbell") {
  Crowd crowd({.connections = kConnections});
  Rest(crowd.passive);
  for (size_t from = 0; from < kConnections; from += 7) {
    REQUIRE(crowd.passive.queue->Arm());
    REQUIRE(crowd.passive.Turn() == 0);
    crowd.active.Send(from, 8);
    REQUIRE(Readable(crowd.passive.queue->fd(), 10'000));
    crowd.passive.queue->Drain();
    REQUIRE(crowd.passive.Turn() == 1);
    CHECK(crowd.passive.last == from);
    Rest(crowd.passive);
  }
}

TEST_CASE("what came to one at rest before it could wish for a doorbell is found by Arm") {
  for (size_t from = 0; from < kConnections; from += 13) {
    Crowd crowd({.connections = kConnections});
    Rest(crowd.passive);
    crowd.active.Send(from, 8);
    REQUIRE_FALSE(crowd.passive.queue->Arm());
    REQUIRE(crowd.passive.Turn() == 1);
    CHECK(crowd.passive.last == from);
  }
}

// No Poll after Arm would find it soon: there are too many.
TEST_CASE("what comes to one at rest while it makes its wish is found, or rings") {
  constexpr int kRounds = kSanitized ? 1000 : 30'000;
  Crowd crowd({.connections = kConnections, .rnr_retry = 7});
  std::atomic<int> round{0};
  std::atomic<bool> lost{false};
  std::thread sender([&] {
    std::minstd_rand random(5);
    for (int i = 1; i <= kRounds; ++i) {
      while (round.load(std::memory_order_acquire) < i) {
        if (lost) return;
        std::this_thread::yield();
      }
      for (auto spin = random() % 4000; spin != 0; --spin) asm volatile("");
      crowd.active.Send(kOne, 8);
      for (int turns = 0; turns < 4; ++turns) crowd.active.Turn();
    }
  });
  std::minstd_rand random(6);
  for (int i = 1; i <= kRounds && !lost; ++i) {
    Rest(crowd.passive);
    round.store(i, std::memory_order_release);
    for (auto spin = random() % 4000; spin != 0; --spin) asm volatile("");
    size_t received = 0;
    while (received == 0 && !lost) {
      crowd.passive.queue->Drain();
      if (crowd.passive.queue->Arm() && (received = crowd.passive.Turn()) == 0) {
        lost = !Readable(crowd.passive.queue->fd(), 10'000);
      }
      if (received == 0) received = crowd.passive.Turn();
    }
  }
  CHECK_FALSE(lost);
  sender.join();
}

TEST_CASE("connections at rest learn that the device went") {
  Crowd crowd({.connections = kConnections,
               .faults = {.faults = {{.kind = Fault::Kind::kRemoval, .nth = 1}}}});
  Side& side = crowd.active;
  Rest(side);
  side.Send(kOne, 8);
  size_t told = 0;
  Completion flushed[64];
  for (int polls = 0; polls < 5000 && told < kConnections; ++polls) {
    side.queue->Poll(flushed);
    while (const std::optional<ConnectionEvent> event = side.channel->Next()) {
      told += event->kind == ConnectionEvent::Kind::kDeviceRemoved ? 1 : 0;
    }
  }
  CHECK(told == kConnections);
}

}  // namespace
}  // namespace farcall::softnic::testing
