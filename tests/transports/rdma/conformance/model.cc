// Random operations from a seed against a model that is as simple as can be: the messages of each
// direction in a queue, a copy of each side's memory, completions in the order of posting.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <random>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/subject.h"

namespace farcall::rdma::testing {
namespace {

constexpr int kOperations = 100'000;
constexpr uint32_t kDepth = 32;
constexpr size_t kSlot = 4096;  // one a receive, behind those that are sent and read into
constexpr size_t kSinks = kSlot * kDepth;
constexpr size_t kSource = 2 * kSinks;
constexpr size_t kConstant = 3 * kSinks;  // what is read never changes

struct Posted {
  Opcode opcode = Opcode::kSend;
  uint64_t wr_id = 0;
  bool signaled = true;
  uint32_t bytes = 0;
  uint32_t seed = 0;  // SEND: of the contents
  size_t sink = 0;    // READ: where to, and from
  size_t from = 0;
};

// One side, what it has posted, and what it must see.
struct Player {
  End& end;
  std::deque<Posted> sends;        // not completed, in order
  std::deque<Posted> on_the_wire;  // messages that the other side must receive, in order
  std::deque<uint64_t> receives;   // wr_ids: the slot is wr_id % kDepth
  uint64_t next_id = 0;
  uint32_t slots_in_use = 0;  // of the send queue
  uint32_t credits = 0;       // receives posted over there that no message of ours has taken
};

class Game {
 public:
  explicit Game(uint64_t seed)
      : random_(seed),
        pair_(SubjectDevice(), FreshAddress(), Options(), Options()),
        players_{{pair_.active, {}, {}, {}}, {pair_.passive, {}, {}, {}}} {
    pair_.active.Fill(kConstant, 2 * kSlot, 1);
    pair_.passive.Fill(kConstant, 2 * kSlot, 2);
  }

  void Play() {
    for (int i = 0; i < kOperations / Slowness(); ++i) {
      Player& mine = players_[random_() % 2];
      Player& other = &mine == &players_[0] ? players_[1] : players_[0];
      switch (random_() % 8) {
        case 0:
        case 1:
          PostReceive(mine, other);
          break;
        case 2:
        case 3:
          Send(mine, other);
          break;
        case 4:
          Read(mine, other);
          break;
        default:
          Poll(mine, other);
      }
    }
    REQUIRE(TurnUntil(pair_.active, pair_.passive, [&] {
      Poll(players_[0], players_[1]);
      Poll(players_[1], players_[0]);
      return Done(players_[0]) && Done(players_[1]);
    }));
    REQUIRE(pair_.Quiet());
  }

 private:
  static bool Done(const Player& player) {
    return player.on_the_wire.empty() &&
           std::none_of(player.sends.begin(), player.sends.end(),
                        [](const Posted& left) { return left.signaled; });
  }

  static EndOptions Options() {
    return {.send_depth = kDepth, .receive_depth = kDepth, .memory = kConstant + 2 * kSlot};
  }

  uint32_t Size() {
    constexpr uint32_t kSizes[] = {0, 1, 64, 239, 240, 241, 1000, 4095, 4096};
    return kSizes[random_() % std::size(kSizes)];
  }

  void PostReceive(Player& mine, Player& other) {
    if (mine.receives.size() == kDepth) return;
    const uint64_t id = mine.next_id++;
    // The oldest slot is free: receives end in order.
    mine.receives.push_back(id);
    mine.end.Receive(id, kSinks + (receive_count_[&mine - players_]++ % kDepth) * kSlot, kSlot);
    ++other.credits;
  }

  // The memory that a request sends from is written when it is posted, in a place of its own.
  bool Prepare(Player& mine, Posted& posted) {
    if (mine.slots_in_use == kDepth) return false;
    posted.wr_id = mine.next_id++;
    posted.bytes = Size();
    posted.seed = static_cast<uint32_t>(random_());
    // The last slot is signaled, or nothing would ever free one.
    posted.signaled = mine.slots_in_use >= kDepth / 2 || random_() % 4 != 0;
    ++mine.slots_in_use;
    return true;
  }

  void Send(Player& mine, Player& /*other*/) {
    Posted posted;
    if (mine.credits == 0 || !Prepare(mine, posted)) return;
    SendRequest request;
    request.wr_id = posted.wr_id;
    request.signaled = posted.signaled;
    request.inlined = posted.bytes <= mine.end.pair->max_inline() && random_() % 2 == 0;
    const size_t source = kSource + (send_count_[&mine - players_]++ % kDepth) * kSlot;
    mine.end.Fill(source, posted.bytes, posted.seed);
    const uint32_t first = posted.bytes / 3;
    request.sge_count = 2;
    request.sges[0] = mine.end.At(source, first);
    request.sges[1] = mine.end.At(source + first, posted.bytes - first);
    REQUIRE(mine.end.Post(request).ok());
    --mine.credits;
    mine.sends.push_back(posted);
    mine.on_the_wire.push_back(posted);
  }

  void Read(Player& mine, Player& other) {
    Posted posted;
    posted.opcode = Opcode::kRead;
    if (!Prepare(mine, posted)) return;
    posted.signaled = true;
    if (posted.bytes == 0 && !SubjectTraits().empty_reads) posted.bytes = 1;
    posted.sink = (read_count_[&mine - players_]++ % kDepth) * kSlot;
    posted.from = kConstant + random_() % kSlot;
    mine.end.Read(posted.wr_id, posted.sink, posted.bytes, other.end.address(posted.from),
                  other.end.region->rkey());
    mine.sends.push_back(posted);
  }

  void Poll(Player& mine, Player& other) {
    mine.end.Turn();
    while (!mine.end.completions.empty()) {
      const Completion completion = mine.end.completions.front();
      mine.end.completions.pop_front();
      REQUIRE(completion.status == CompletionStatus::kSuccess);
      if (completion.opcode == Opcode::kReceive) {
        Received(mine, other, completion);
      } else {
        Sent(mine, other, completion);
      }
    }
    REQUIRE(mine.end.events.empty());
  }

  void Received(Player& mine, Player& other, const Completion& completion) {
    REQUIRE_FALSE(other.on_the_wire.empty());
    const Posted message = other.on_the_wire.front();
    other.on_the_wire.pop_front();
    REQUIRE(mine.receives.front() == completion.wr_id);
    mine.receives.pop_front();
    REQUIRE(completion.bytes == message.bytes);
    const size_t slot = received_count_[&mine - players_]++ % kDepth;
    REQUIRE(mine.end.Holds(kSinks + slot * kSlot, message.bytes, message.seed));
  }

  void Sent(Player& mine, Player& other, const Completion& completion) {
    while (!mine.sends.front().signaled) {
      mine.sends.pop_front();
      --mine.slots_in_use;
    }
    const Posted sent = mine.sends.front();
    mine.sends.pop_front();
    --mine.slots_in_use;
    REQUIRE(sent.wr_id == completion.wr_id);
    REQUIRE(sent.opcode == completion.opcode);
    if (sent.opcode != Opcode::kRead) return;
    REQUIRE(std::memcmp(mine.end.memory(sent.sink), other.end.memory(sent.from), sent.bytes) == 0);
  }

  std::mt19937_64 random_;
  Pair pair_;
  Player players_[2];
  uint64_t receive_count_[2] = {}, received_count_[2] = {}, send_count_[2] = {},
           read_count_[2] = {};
};

TEST_CASE("random operations, 100,000 of them, do what the model says") {
  const uint64_t seed = GENERATE(1, 20260601);
  INFO("seed=" << seed);
  Game(seed).Play();
}

}  // namespace
}  // namespace farcall::rdma::testing
