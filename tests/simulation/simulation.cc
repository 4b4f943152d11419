#include "farcall/tests/simulation/simulation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/loopback/loopback.h"

namespace farcall::simulation {

using std::chrono::microseconds;
using std::chrono::milliseconds;

Simulation::Simulation(uint64_t seed) : plan_(seed), dice_(~seed) {
  for (size_t i = 0; i < plan_.client_loops + plan_.server_loops; ++i) {
    loops_.push_back(std::make_shared<EventLoop>(
        EventLoopOptions{.mode = ProgressMode::kEvent, .clock = &clock_, .helper_thread = false}));
  }
  const auto pool = [](size_t bytes) {
    return std::make_shared<BufferPool>(BufferPoolOptions{.name = "simulated", .max_bytes = bytes});
  };
  client_pool_ = pool(plan_.client_pool_bytes);
  server_pool_ = pool(plan_.server_pool_bytes);
  const auto network = MakeLoopbackNetwork();
  client_transport_ = MakeFaultyTransport(
      MakeLoopbackTransport(
          {.network = network, .pool = client_pool_, .limits = plan_.client_limits}),
      plan_.client_faults, dice_.Throw());
  server_transport_ = MakeFaultyTransport(
      MakeLoopbackTransport(
          {.network = network, .pool = server_pool_, .limits = plan_.server_limits}),
      plan_.server_faults, dice_.Throw());
  clients_.resize(plan_.channels);
  for (size_t i = 0; i < clients_.size(); ++i) clients_[i].loop = i % plan_.client_loops;
}

// Also of a world whose end was not reached.
Simulation::~Simulation() {
  ending_ = true;
  while (!hosts_.empty()) Kill(*hosts_.back());
  for (Client& client : clients_) client.channel.reset();
  for (int turns = 0; turns < 20; ++turns) TurnAll();
  loops_.clear();
}

bool Simulation::Run() {
  if (dice_.Throw(4) != 0) Listen();
  for (size_t i = 0; i < clients_.size(); ++i) Open(i);
  for (size_t step = 0; step < plan_.steps && !broken(); ++step) Step();
  if (!broken()) End();
  if (!broken()) CheckNothingIsLeft();
  return !broken();
}

// ---- the plan ----

void Simulation::Step() {
  const uint64_t what = dice_.Throw(100);
  if (what < 58) {
    StepTime();
  } else if (what < 85) {
    StepClients();
  } else {
    StepServers();
  }
}

void Simulation::StepTime() {
  switch (dice_.Throw(8)) {
    case 0:
    case 1:
      Turn(dice_.Throw(loops_.size()));
      return;
    case 2:
    case 3:
      TurnAll();
      return;
    case 4:
      for (uint64_t turns = dice_.Throw(8); turns > 0; --turns) TurnAll();
      return;
    case 5:
      for (int turns = 0; turns < 100 && TurnAll() > 0; ++turns) continue;
      return;
    default:
      if (dice_.Throw(100) < plan_.far_steps) return Advance(milliseconds(50 + dice_.Throw(3000)));
      Advance(microseconds(1 + dice_.Throw(5000)));
      if (dice_.Throw(2) == 0) TurnAll();
  }
}

void Simulation::StepClients() {
  const size_t client = dice_.Throw(clients_.size());
  const uint64_t what = dice_.Throw(40);
  if (what == 0) {
    if (clients_[client].channel) CloseClient(client);
  } else if (!clients_[client].channel) {
    Open(client);
  } else if (what < 6) {
    CancelCall();
  } else if (what < 12) {  // on the loop's driver
    loops_[clients_[client].loop]->Post([this, client] {
      if (clients_[client].channel && !ending_) StartCall(client);
    });
  } else if (what < 18) {
    StartCoroutine(client);
  } else {
    for (uint64_t calls = 1 + dice_.Throw(2); calls > 0; --calls) StartCall(client);
  }
}

void Simulation::StepServers() {
  const uint64_t what = dice_.Throw(20);
  if (what == 0) {
    Drain();
  } else if (what == 1 && !plan_.gentle) {
    if (!hosts_.empty()) Kill(*hosts_[dice_.Throw(hosts_.size())]);
  } else if (what < 5 && Listening() == nullptr) {
    Listen();
  } else if (what < 8) {
    RemoveIdle();
  } else {
    LetSomeGo();
  }
}

// ---- time ----

size_t Simulation::Turn(size_t loop) {
  history_.Add(Did::kTurn, loop);
  const size_t work = loops_[loop]->RunOnce();
  if (loop < plan_.client_loops) {
    ledger_.AfterTurn(loop);
    CheckBounds(loop);
  }
  return work;
}

size_t Simulation::TurnAll() {
  size_t work = 0;
  for (size_t loop = 0; loop < loops_.size(); ++loop) work += Turn(loop);
  return work;
}

void Simulation::Advance(Duration time) {
  clock_.Advance(time);
  history_.Add(Did::kAdvance, static_cast<uint64_t>(time.count() / 1000));
}

// A channel carries as many calls as its servers serve at once, on one connection to each that may
// still drain, and keeps max_waiting_calls beside them.
void Simulation::CheckBounds(size_t loop) {
  const size_t most =
      plan_.channel.max_waiting_calls + hosts_made_ * plan_.server.limits.max_calls_in_flight;
  for (size_t i = 0; i < clients_.size(); ++i) {
    if (clients_[i].loop != loop) continue;
    const size_t open = ledger_.OpenOn(i);
    ledger_.Require(open <= most, absl::StrCat("channel ", i, " has ", open, " calls, more than ",
                                               most, " that may wait or be served"));
  }
}

// ---- the end ----

template <class Condition>
void Simulation::PassUntil(Condition over, const char* rule) {
  // The slowest wire moves the largest message in a second, and no deadline is later than 10 s.
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds && !broken(); ++round) {
    for (int turns = 0; turns < 50 && TurnAll() > 0; ++turns) continue;
    if (over()) return;
    Advance(milliseconds(round < 50 ? 1 : 20));
  }
  ledger_.Require(false, rule);
}

void Simulation::DrainToTheEnd() {
  Drain();
  for (const auto& host : hosts_) host->service->Close();
  PassUntil(
      [this] {
        RemoveIdle();
        return hosts_.empty();
      },
      "a server that drains and has no calls any more does not come to its end");
}

void Simulation::CloseAll() {
  for (size_t i = 0; i < clients_.size(); ++i) {
    if (clients_[i].channel) CloseClient(i);
  }
}

void Simulation::End() {
  const uint64_t manner = dice_.Throw(4);
  history_.Add(Did::kFinale, manner);
  ending_ = true;
  switch (manner) {
    case 0:
      CloseAll();
      DrainToTheEnd();
      break;
    case 1:
      DrainToTheEnd();
      CloseAll();
      break;
    case 2:
      while (!hosts_.empty()) Kill(*hosts_.back());
      CloseAll();
      break;
    default:
      PassUntil([this] { return ledger_.open().empty(); }, "a call does not end");
      DrainToTheEnd();
      CloseAll();
  }
  PassUntil([this] { return ledger_.open().empty(); }, "a call of a closed channel does not end");
  // What is left has nothing more to wait for.
  for (int idle = 0, turns = 0; idle < 3 && turns < 1000; ++turns) {
    idle = TurnAll() == 0 ? idle + 1 : 0;
  }
}

void Simulation::CheckNothingIsLeft() {
  ledger_.CheckEnd();
  for (const auto& core : cores_) {
    ledger_.Require(core.expired(), "a channel outlives its handles, calls and connections");
  }
  for (size_t i = 0; i < loops_.size(); ++i) {
    ledger_.Require(loops_[i]->timers().size() == 0,
                    absl::StrCat(loops_[i]->timers().size(), " timers are armed on loop ", i));
  }
  const auto returned = [this](const char* who, const BufferPool& pool) {
    const size_t bytes = pool.stats().leased_bytes;
    ledger_.Require(bytes == 0, absl::StrCat(bytes, " bytes of ", who, " pool were not returned"));
  };
  returned("the clients'", *client_pool_);
  returned("the servers'", *server_pool_);
  returned("the unconnected channels'", *unconnected_pool_);
}

}  // namespace farcall::simulation
