// Arming and notices: one for each arming, none too early, and never one that is lost.
#include <poll.h>

#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "farcall/tests/from_environment.h"
#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/subject.h"

namespace farcall::rdma::testing {
namespace {

bool Readable(int fd, int timeout_ms) {
  pollfd ready{fd, POLLIN, 0};
  return ::poll(&ready, 1, timeout_ms) > 0;
}

const int kPatienceMs = farcall::testing::Patience(10'000);

TEST_CASE("a queue that is armed is noticed, once") {
  Pair pair(SubjectDevice(), FreshAddress());
  for (uint64_t i = 0; i < 8; ++i) pair.passive.Receive(i, 0, 64);
  REQUIRE(pair.Quiet());
  CHECK_FALSE(Readable(pair.passive.queue->fd(), 0));
  REQUIRE(pair.passive.queue->Arm());
  CHECK_FALSE(Readable(pair.passive.queue->fd(), 10));
  pair.active.Send(1, 0, 8);
  CHECK(Readable(pair.passive.queue->fd(), kPatienceMs));
  pair.passive.queue->Drain();
  CHECK_FALSE(Readable(pair.passive.queue->fd(), 0));
  CHECK(pair.passive.NextCompletion(pair.active).wr_id == 0);
  pair.active.Send(2, 0, 8);  // not armed again
  CHECK_FALSE(Readable(pair.passive.queue->fd(), 10));
  CHECK(pair.passive.NextCompletion(pair.active).wr_id == 1);
}

TEST_CASE("a queue with something in it does not sleep") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.passive.Receive(1, 0, 64);
  REQUIRE(pair.passive.queue->Arm());
  pair.active.Send(1, 0, 8);
  CHECK(Readable(pair.passive.queue->fd(), kPatienceMs));
  // The notice alone, or Arm: one of them says it, whoever asks first.
  CHECK((!pair.passive.queue->Arm() || Readable(pair.passive.queue->fd(), 0)));
  CHECK(pair.passive.NextCompletion(pair.active).wr_id == 1);
}

TEST_CASE("who waits for its send to complete is noticed, too") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.passive.Receive(1, 0, 64);
  pair.active.Send(2, 0, 8);
  const bool armed = pair.active.queue->Arm();
  pair.active.Turn();
  if (armed && pair.active.completions.empty()) {
    REQUIRE(TurnUntil(pair.passive, pair.passive,
                      [&] { return Readable(pair.active.queue->fd(), 0); }));
  }
  CHECK(pair.active.NextCompletion(pair.passive).wr_id == 2);
}

TEST_CASE("flushes and disconnects are noticed") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.passive.Receive(1, 0, 64);
  pair.active.Receive(2, 0, 64);
  REQUIRE(pair.Quiet());
  REQUIRE(pair.active.queue->Arm());
  pair.active.pair->Fail();
  CHECK(Readable(pair.active.queue->fd(), kPatienceMs));
  REQUIRE(pair.passive.queue->Arm());
  // Over TCP (iWARP) the failure itself ends the connection.
  if (SubjectDevice().capabilities().acknowledges) {
    CHECK_FALSE(Readable(pair.passive.channel->fd(), 0));
  }
  pair.active.id->Disconnect();
  REQUIRE(Readable(pair.passive.channel->fd(), kPatienceMs));
  CHECK(pair.passive.NextEvent(pair.active).kind == ConnectionEvent::Kind::kDisconnected);
  // What was flushed before it was armed is there already.
  CHECK((!pair.passive.completions.empty() || Readable(pair.passive.queue->fd(), kPatienceMs)));
}

// One side of a ping-pong that sleeps when it has polled in vain for a while.
class Sleeper {
 public:
  explicit Sleeper(End& end) : end_(end) {}
  // False: nothing came in ten seconds.
  bool AwaitReceive(uint32_t patience) {
    Completion completion;
    for (;;) {
      for (uint32_t vain = 0; vain < patience; ++vain) {
        if (end_.queue->Poll(std::span(&completion, 1)) == 0) continue;
        if (completion.status != CompletionStatus::kSuccess) return false;
        if (completion.opcode == Opcode::kReceive) return true;
      }
      while (end_.queue->Poll(std::span(&completion, 1)) == 1) {
        if (completion.status != CompletionStatus::kSuccess) return false;
        if (completion.opcode == Opcode::kReceive) return true;
      }
      end_.queue->Drain();
      if (!end_.queue->Arm()) continue;
      if (end_.queue->Poll(std::span(&completion, 1)) == 1) {
        if (completion.opcode == Opcode::kReceive) return true;
        continue;
      }
      if (!Readable(end_.queue->fd(), kPatienceMs)) return false;
    }
  }

 private:
  End& end_;
};

TEST_CASE("two sides that sleep between messages at random gaps lose no wake-up") {
  const auto messages = static_cast<uint64_t>(20'000 / Slowness());
  Pair pair(SubjectDevice(), FreshAddress(), {}, {.rnr_retry = 0});
  for (uint64_t i = 0; i < 32; ++i) {
    pair.passive.Receive(i, 0, 64);
    pair.active.Receive(i, 0, 64);
  }
  const auto play = [messages](End& end, bool first, uint32_t seed) {
    std::mt19937 random(seed);
    Sleeper sleeper(end);
    const ReceiveRequest receive{0, end.At(0, 64)};
    SendRequest send;
    send.sge_count = 1;
    send.sges[0] = end.At(4096, 8);
    size_t posted = 0;
    for (uint64_t i = 0; i < messages; ++i) {
      for (auto spin = random() % 2000; spin != 0; --spin) asm volatile("");
      send.signaled = i % 8 == 0;
      if (first && !end.pair->PostSend(std::span(&send, 1), posted).ok()) return i;
      // Such that many an answer comes just as this side goes to sleep.
      if (!sleeper.AwaitReceive(random() % 64)) return i;
      if (!end.pair->PostReceive(std::span(&receive, 1), posted).ok()) return i;
      if (!first && !end.pair->PostSend(std::span(&send, 1), posted).ok()) return i;
    }
    return messages;
  };
  uint64_t answered = 0;
  std::thread other([&] { answered = play(pair.passive, false, 2); });
  CHECK(play(pair.active, true, 1) == messages);
  other.join();
  CHECK(answered == messages);
}

}  // namespace
}  // namespace farcall::rdma::testing
