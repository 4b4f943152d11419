// The tables of transfer.h: what every way through them does.

#include "farcall/transports/rdma/transfer.h"

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <vector>

namespace farcall::rdma {
namespace {

// Calls `check` with every way from the first state to kEnded: its events and its actions.
template <typename State, typename Event>
using Path = std::vector<std::pair<Event, uint8_t>>;

template <typename State, typename Event>
void Walk(State state, size_t events, Step<State> (*next)(State, Event), Path<State, Event>& path,
          const std::function<void(const Path<State, Event>&)>& check) {
  REQUIRE(path.size() < 10);  // no way goes in circles
  if (state == State::kEnded) return check(path);
  size_t ways = 0;
  for (size_t i = 0; i < events; ++i) {
    const auto event = static_cast<Event>(i);
    const Step<State> step = next(state, event);
    if (step.verdict != Verdict::kStep) continue;
    ++ways;
    path.emplace_back(event, step.actions);
    Walk(step.to, events, next, path, check);
    path.pop_back();
  }
  REQUIRE(ways > 0);  // no state is a dead end
}

template <typename State, typename Event>
size_t Count(const Path<State, Event>& path, uint8_t action) {
  size_t count = 0;
  for (const auto& [event, actions] : path) count += (actions & action) != 0 ? 1 : 0;
  return count;
}

template <typename State, typename Event>
bool Has(const Path<State, Event>& path, Event wanted) {
  for (const auto& [event, actions] : path) {
    if (event == wanted) return true;
  }
  return false;
}

TEST_CASE("every way of a sender's transfer finishes once and releases what the peer could read") {
  using namespace outgoing;  // NOLINT(google-build-using-namespace)
  size_t ways = 0;
  Path<State, Event> path;
  Walk<State, Event>(State::kBuilt, kEvents, &Next, path, [&](const Path<State, Event>& way) {
    ++ways;
    const bool posted = Has<State, Event>(way, Event::kPosted);
    CHECK(Count<State, Event>(way, kFinish) == 1);
    // Unsent, the message goes back with `done`.
    CHECK(Count<State, Event>(way, kRelease) == (posted ? 1 : 0));
    // Nothing is released before the device or the end of the queue pair says so.
    if (posted) {
      CHECK((way.back().first == Event::kRevoked || way.back().first == Event::kDestroyed));
      CHECK((way.back().second & kRelease) != 0);
    }
    const bool fin = Has<State, Event>(way, Event::kFin);
    CHECK(Count<State, Event>(way, kRevoke) == (fin ? 1 : 0));
    CHECK(Count<State, Event>(way, kSendCancel) ==
          (posted && Has<State, Event>(way, Event::kWithdraw) ? 1 : 0));
  });
  CHECK(ways == 8);
}

TEST_CASE("every way of a receiver's transfer ends once, with one FIN while there is a peer") {
  using namespace incoming;  // NOLINT(google-build-using-namespace)
  size_t ways = 0;
  Path<State, Event> path;
  Walk<State, Event>(State::kWaiting, kEvents, &Next, path, [&](const Path<State, Event>& way) {
    ++ways;
    const bool error = Has<State, Event>(way, Event::kError);
    const size_t delivered = Count<State, Event>(way, kDeliver);
    const size_t told = Count<State, Event>(way, kTell);
    CHECK(Count<State, Event>(way, kSendFin) == (error ? 0 : 1));
    CHECK(delivered + told <= 1);
    if (!error) CHECK(delivered + told == 1);
    CHECK(delivered == (Has<State, Event>(way, Event::kArrived) ? 1 : 0));
    CHECK(Count<State, Event>(way, kRelease) + delivered == 1);
    const bool reading = Has<State, Event>(way, Event::kMemory);
    CHECK(Count<State, Event>(way, kStartReads) == (reading ? 1 : 0));
    // A sink is let go after its last READ, or with the queue pair.
    if (reading) {
      const Event last = way.back().first;
      CHECK((last == Event::kArrived || last == Event::kDrained || last == Event::kDestroyed));
    }
  });
  CHECK(ways == 10);
}

TEST_CASE("what cannot happen, what is too late and what a peer must not do") {
  size_t bugs = 0, late = 0, violations = 0;
  const auto count = [&](Verdict verdict) {
    if (verdict == Verdict::kBug) ++bugs;
    if (verdict == Verdict::kIgnore) ++late;
    if (verdict == Verdict::kViolation) ++violations;
  };
  for (size_t state = 0; state < outgoing::kStates; ++state) {
    for (size_t event = 0; event < outgoing::kEvents; ++event) {
      count(outgoing::Next(static_cast<outgoing::State>(state), static_cast<outgoing::Event>(event))
                .verdict);
    }
    // Whatever the peer sends and whenever a call ends: never a bug of ours.
    for (const outgoing::Event event :
         {outgoing::Event::kFin, outgoing::Event::kWithdraw, outgoing::Event::kError}) {
      CHECK(outgoing::Next(static_cast<outgoing::State>(state), event).verdict != Verdict::kBug);
    }
  }
  CHECK(violations == 2);
  CHECK(late == 6);
  CHECK(bugs == 11);
  for (size_t state = 0; state < incoming::kStates; ++state) {
    for (const incoming::Event event :
         {incoming::Event::kAbandon, incoming::Event::kCancel, incoming::Event::kError}) {
      const auto step = incoming::Next(static_cast<incoming::State>(state), event);
      CHECK((step.verdict == Verdict::kStep || step.verdict == Verdict::kIgnore));
    }
  }
}

}  // namespace
}  // namespace farcall::rdma
