// Every state that two peers can get into by the credit rules, with the real class on both sides:
// in none of them do both wait for ever. The rules are believed for that reason.

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "farcall/transports/rdma/credits.h"

namespace farcall::rdma {
namespace {

constexpr size_t kMaxDepth = 8;

struct Flying {
  Kind kind = Kind::kCredit;
  uint32_t reposts = 0;
};

// A side, and the SENDs in flight to it.
struct Side {
  Credits credits;
  std::array<Flying, kMaxDepth> flying = {};
  size_t in_flight = 0;
};

using State = std::array<Side, 2>;

// What tells two states apart. Of counters only the differences matter.
using HalfKey = std::pair<uint32_t, uint64_t>;
using Key = std::pair<HalfKey, HalfKey>;

HalfKey HalfOf(const Side& side) {
  uint32_t counts = side.credits.available();
  counts = counts << 4 | side.credits.untold();
  counts = counts << 1 | (side.credits.untold_news() ? 1 : 0);
  uint64_t flying = 1;
  uint32_t known = side.credits.peer_reposts();
  for (size_t i = 0; i < side.in_flight; ++i) {
    flying = flying << 1 | (side.flying[i].kind == Kind::kCredit);
    flying = flying << 4 | (side.flying[i].reposts - known);
    known = side.flying[i].reposts;
  }
  return {counts, flying};
}

Key KeyOf(const State& state, bool equal_depths) {
  HalfKey a = HalfOf(state[0]);
  HalfKey b = HalfOf(state[1]);
  if (equal_depths && b < a) std::swap(a, b);  // the mirror image is the same state
  return {a, b};
}

struct Model {
  std::array<uint32_t, 2> depths;
  Credits::Variation variation = {};
};

struct Result {
  size_t states = 0;
  std::optional<std::string> stuck;
};

// Nothing is under way, nobody will say anything by itself, and somebody may not speak.
bool Stuck(const State& state) {
  bool mute = false;
  for (const Side& side : state) {
    if (side.in_flight != 0) return false;
    if (side.credits.CreditDue() && side.credits.CanSend(Kind::kCredit)) return false;
    if (!side.credits.CanSend(Kind::kMessage)) mute = true;
  }
  return mute;
}

std::string Describe(const State& state) {
  std::string text;
  for (const Side& side : state) {
    text += "[" + std::to_string(side.credits.available()) + " available, " +
            std::to_string(side.credits.untold()) + " untold" +
            (side.credits.untold_news() ? " with news] " : "] ");
  }
  return text;
}

void Send(State& state, const Model& model, size_t from, Kind kind) {
  Side& to = state[1 - from];
  if (to.in_flight == model.depths[1 - from]) FAIL("a SEND finds no receive");
  to.flying[to.in_flight++] = {kind, state[from].credits.Send()};
}

void Receive(Side& side) {
  const Flying first = side.flying[0];
  std::copy(side.flying.begin() + 1, side.flying.end(), side.flying.begin());
  side.flying[--side.in_flight] = {};
  const absl::Status status = side.credits.Received(first.kind, first.reposts);
  if (!status.ok()) FAIL(status.ToString());
}

std::vector<State> After(const State& state, const Model& model) {
  std::vector<State> after;
  for (size_t side = 0; side < 2; ++side) {
    const Credits& credits = state[side].credits;
    if (credits.CanSend(Kind::kMessage)) {
      Send(after.emplace_back(state), model, side, Kind::kMessage);
    }
    if (credits.CreditDue() && credits.CanSend(Kind::kCredit)) {
      Send(after.emplace_back(state), model, side, Kind::kCredit);
    }
    if (state[side].in_flight != 0) Receive(after.emplace_back(state)[side]);
  }
  return after;
}

Result Explore(const Model& model) {
  const auto [own, peer] = model.depths;
  const bool equal = own == peer;
  const State start = {Side{Credits(own, peer, model.variation)},
                       Side{Credits(peer, own, model.variation)}};
  absl::flat_hash_set<Key> seen = {KeyOf(start, equal)};
  std::vector<State> left = {start};
  while (!left.empty()) {
    const State state = left.back();
    left.pop_back();
    if (Stuck(state)) return {seen.size(), Describe(state)};
    for (const State& next : After(state, model)) {
      if (seen.insert(KeyOf(next, equal)).second) left.push_back(next);
    }
  }
  return {seen.size(), std::nullopt};
}

TEST_CASE("no state is stuck from a depth of 4 on, equal or not") {
  for (uint32_t own = kMinReceiveDepth; own <= kMaxDepth; ++own) {
    for (uint32_t peer = own; peer <= kMaxDepth; ++peer) {
      INFO("depths " << own << " and " << peer);
      const Result result = Explore({.depths = {own, peer}});
      CHECK(result.stuck.value_or("none") == "none");
      // It did go somewhere: at least every split of the credits in which nobody has any news.
      CHECK(result.states > own * peer);
    }
  }
}

TEST_CASE("nor is one where the counters pass 2^32") {
  for (const auto& [own, peer] : {std::pair{4u, 4u}, {5u, 7u}, {8u, 4u}}) {
    const Result from_0 = Explore({.depths = {own, peer}});
    for (uint32_t before = 1; before < 2 * kMaxDepth; ++before) {
      INFO("depths " << own << " and " << peer << ", " << before << " before");
      const Result result =
          Explore({.depths = {own, peer}, .variation = {.count_from = 0 - before}});
      CHECK(result.stuck.value_or("none") == "none");
      CHECK(result.states == from_0.states);
    }
  }
}

TEST_CASE("without rule 2 every depth gets stuck") {
  for (uint32_t own = 2; own <= kMaxDepth; ++own) {
    for (uint32_t peer = own; peer <= kMaxDepth; ++peer) {
      INFO("depths " << own << " and " << peer);
      CHECK(Explore({.depths = {own, peer}, .variation = {.keep_last = false}}).stuck);
    }
  }
}

TEST_CASE("with it depths of 2 and 3 get stuck, and are refused for that") {
  for (uint32_t peer = 2; peer <= kMaxDepth; ++peer) {
    INFO("depths 2 and " << peer);
    CHECK(Explore({.depths = {2, peer}}).stuck);
  }
  // Not with every peer: 3 receives do where the other side has an odd number of them.
  for (const uint32_t peer : {2, 4, 6, 8}) {
    INFO("depths 3 and " << peer);
    CHECK(Explore({.depths = {3, peer}}).stuck);
  }
  for (uint32_t depth = 0; depth < kMinReceiveDepth; ++depth) {
    Parameters parameters;
    const absl::Status status =
        DecodeParameters(EncodeParameters({.receive_depth = depth}), parameters);
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace farcall::rdma
