#include "farcall/tests/transports/conformance/arena.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farcall::testing {

Arena::Arena(const TransportUnderTest& subject, Layout layout, TransportLimits limits,
             ManualClock* manual_clock)
    : subject_(subject),
      layout_(layout),
      manual_clock_(manual_clock),
      transport_(subject.make(limits)) {
  NewLoop();
  if (layout_ != Layout::kOneLoop) NewLoop();
}

Arena::~Arena() {
  listeners_.clear();
  DestroyAll();
  // What callbacks and posted work still refer to goes with the loops, before the peers do.
  loops_.clear();
}

EventLoop& Arena::NewLoop() {
  loops_.push_back(std::make_unique<EventLoop>(
      EventLoopOptions{.clock = manual_clock_, .helper_thread = !Stepped()}));
  return *loops_.back();
}

bool Arena::RunUntil(const std::function<bool()>& done, Duration patience) {
  constexpr auto kNap = std::chrono::microseconds(100);
  const Clock& clock = manual_clock_ != nullptr ? *manual_clock_ : Clock::Steady();
  const TimePoint end = clock.Now() + patience;
  while (!done()) {
    if (clock.Now() >= end) return false;
    size_t worked = 0;
    if (Stepped()) {
      for (const auto& loop : loops_) worked += loop->RunOnce();
    }
    if (worked > 0) continue;
    if (manual_clock_ != nullptr) {
      manual_clock_->Advance(TimerWheel::kTick);
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
  return true;
}

void Arena::On(EventLoop& loop, const std::function<void()>& work) {
  if (loop.IsDriver()) return work();
  std::atomic<bool> ran = false;
  loop.Post([&] {
    work();
    ran = true;
  });
  // `work` refers to our stack: there is no going on without it.
  if (!RunUntil([&] { return ran.load(); })) {
    std::fputs("conformance: a loop does not run what is posted to it\n", stderr);
    std::abort();
  }
}

Listener& Arena::Listen(std::vector<EventLoop*> loops) {
  absl::StatusOr<std::unique_ptr<Listener>> listener =
      transport_->Listen(subject_.listen_endpoint(), std::move(loops),
                         [this](EventLoop& loop, std::unique_ptr<Connection> connection) {
                           if (!loop.IsDriver()) Blame("the acceptor runs off its loop");
                           Peer& peer = Adopt("server", loop, std::move(connection));
                           MutexLock lock(mutex_);
                           accepted_.push_back(&peer);
                         });
  INFO(listener.status());
  REQUIRE(listener.ok());
  listeners_.push_back(*std::move(listener));
  return *listeners_.back();
}

Peer& Arena::Accepted(bool start) {
  Peer* peer = nullptr;
  REQUIRE(RunUntil([&] {
    MutexLock lock(mutex_);
    if (accepted_.empty()) return false;
    peer = accepted_.front();
    accepted_.pop_front();
    return true;
  }));
  if (start) peer->Start();
  return *peer;
}

Pair Arena::Connect(bool start) {
  if (listener_ == nullptr) listener_ = &Listen({&server_loop()});
  Dial dial(*this, client_loop(), listener_->address());
  Peer& client = Adopt("client", client_loop(), dial.Take());
  Peer& server = Accepted(/*start=*/false);
  client.ConnectTo(server);
  if (start) {
    client.Start();
    server.Start();
  }
  return {client, server};
}

Peer& Arena::Adopt(std::string name, EventLoop& loop, std::unique_ptr<Connection> connection) {
  auto peer = std::make_unique<Peer>(*this, std::move(name), loop, std::move(connection));
  MutexLock lock(mutex_);
  pools_.insert(peer->pool());
  peers_.push_back(std::move(peer));
  return *peers_.back();
}

void Arena::ExpectAlive(Pair pair) {
  const Sent there = pair.client.Send({.body = 100});
  const Sent back = pair.server.Send({.body = 100});
  CHECK(RunUntil([&] { return pair.server.Received(there.number); }));
  CHECK(RunUntil([&] { return pair.client.Received(back.number); }));
}

void Arena::Blame(std::string what) {
  MutexLock lock(mutex_);
  blames_.push_back(std::move(what));
}

void Arena::Finish() {
  listeners_.clear();
  const std::vector<Peer*> peers = Peers();
  for (Peer* peer : peers) {
    if (peer->destroyed()) continue;
    if (!peer->closed().has_value()) peer->Close(absl::CancelledError("the test is over"));
    INFO("every pending done, then OnClosed");
    CHECK(RunUntil([&] { return peer->outcomes() == peer->sends(); }));
    if (peer->started()) CHECK(RunUntil([&] { return peer->closed().has_value(); }));
  }
  DestroyAll();
  for (Peer* peer : peers) {
    INFO("callbacks of Send that were neither run nor destroyed");
    CHECK(RunUntil([&] { return peer->live_dones() == 0; }));
    for (uint64_t number : peer->UnsentThatArrived()) {
      Blame(absl::StrCat("message ", number, " was reported unsent and arrived"));
    }
  }
  CheckPools();
  MutexLock lock(mutex_);
  INFO(absl::StrJoin(blames_, "\n"));
  CHECK(blames_.empty());
}

void Arena::CheckPools() {
  std::set<std::shared_ptr<BufferPool>> pools;
  {
    MutexLock lock(mutex_);
    pools = pools_;
  }
  for (const auto& pool : pools) {
    INFO("bytes of a pool that did not come home");
    RunUntil([&] { return pool->stats().leased_bytes == 0; });
    CHECK(pool->stats().leased_bytes == 0);
  }
}

std::vector<Peer*> Arena::Peers() {
  std::vector<Peer*> peers;
  MutexLock lock(mutex_);
  for (const auto& peer : peers_) peers.push_back(peer.get());
  return peers;
}

void Arena::DestroyAll() {
  for (Peer* peer : Peers()) peer->Destroy();
}

Dial::Dial(Arena& arena, EventLoop& loop, const Endpoint& endpoint, Duration timeout)
    : arena_(arena), loop_(loop) {
  auto token = std::make_shared<int>();
  done_ = token;
  arena_.On(loop_, [&] {
    auto done = [&arena = arena_, &loop = loop_, state = state_,
                 token = std::move(token)](absl::StatusOr<std::unique_ptr<Connection>> result) {
      if (!loop.IsDriver()) arena.Blame("the done of Connect off its loop");
      if (state->inside) arena.Blame("the done of Connect inside Connect");
      MutexLock lock(state->mutex);
      if (state->result.has_value()) arena.Blame("the done of Connect ran twice");
      state->result = std::move(result);
    };
    state_->inside = true;
    handle_ =
        arena_.transport().Connect(loop_, endpoint, loop_.clock().Now() + timeout, std::move(done));
    state_->inside = false;
  });
}

Dial::~Dial() {
  Cancel();
  arena_.On(loop_, [&] {
    MutexLock lock(state_->mutex);
    state_->result.reset();
  });
}

void Dial::Cancel() {
  arena_.On(loop_, [&] { handle_ = nullptr; });
}

bool Dial::ended() const {
  MutexLock lock(state_->mutex);
  return state_->result.has_value();
}

absl::Status Dial::Wait() {
  INFO("the done of Connect");
  REQUIRE(arena_.RunUntil([&] { return ended(); }));
  MutexLock lock(state_->mutex);
  return state_->result->status();
}

std::unique_ptr<Connection> Dial::Take() {
  const absl::Status status = Wait();
  INFO(status);
  REQUIRE(status.ok());
  MutexLock lock(state_->mutex);
  return *std::move(*state_->result);
}

}  // namespace farcall::testing
