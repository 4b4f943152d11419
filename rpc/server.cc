#include "farcall/rpc/server.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/log.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/server_loop.h"

namespace farcall {
namespace {

// How often a waiting Shutdown looks whether the last call is done: a rare wait needs no signal on
// every reply.
constexpr Duration kLook = std::chrono::milliseconds(1);
constexpr Duration kComplain = std::chrono::seconds(5);

// For connections to close after they were told to: a turn of their loop.
constexpr Duration kCloseTime = std::chrono::seconds(1);

// What the loops did when they were told to cut: a loop that a handler holds up does so later.
struct CutCalls {
  std::atomic<size_t> loops{0}, calls{0};
};

void AddTo(ServerStats& stats, const ServerTally& tally) {
  stats.connections_accepted += tally.connections_accepted;
  stats.connections_refused += tally.connections_refused;
  stats.calls_running += tally.CallsRunning();
  stats.calls_started += tally.calls_started;
  for (const Tally& refused : tally.calls_refused) stats.calls_refused += refused;
  stats.replies_ok += tally.replies_ok;
  stats.replies_failed += tally.replies_failed;
  stats.replies_dropped += tally.replies_dropped;
}

void AppendConnections(const ConnectionList& list, uint64_t loop, ServerMetrics& metrics) {
  for (std::vector<ConnectionStats>* to : {&metrics.connections, &metrics.closed}) {
    const size_t before = to->size();
    to == &metrics.closed ? list.AppendClosed(*to) : list.AppendOpen(*to);
    for (size_t i = before; i < to->size(); ++i) (*to)[i].loop = loop;
  }
}

class CloseLoop final : public BlockingTask {
 public:
  explicit CloseLoop(ServerLoop& home) : home_(home) {}
  void Run() override {
    home_.Close();
    Finish();
  }

 private:
  ServerLoop& home_;
};

}  // namespace

class ServerState {
 public:
  explicit ServerState(ServerOptions options) { shared_.options = std::move(options); }

  absl::Status Add(const Service& service) {
    MutexLock lock(mutex_);
    if (closed_) return Closed();
    if (!listeners_.empty()) {
      return absl::FailedPreconditionError("services are added before the server listens");
    }
    const bool blocking = std::any_of(service.methods().begin(), service.methods().end(),
                                      [](const BoundMethod& method) { return method.on_workers; });
    if (blocking && shared_.workers == nullptr) {
      absl::StatusOr<std::unique_ptr<WorkerPool>> workers =
          WorkerPool::Start(shared_.options.workers);
      if (!workers.ok()) return workers.status();
      shared_.workers = *std::move(workers);
    }
    return shared_.methods.Add(service);
  }

  absl::StatusOr<Endpoint> Listen(const std::shared_ptr<Transport>& transport,
                                  const Endpoint& endpoint) {
    {
      MutexLock lock(mutex_);
      if (closed_) return Closed();
      if (absl::Status made = MakeLoops(); !made.ok()) return made;
    }
    std::vector<EventLoop*> loops;
    loops.reserve(loops_.size());
    for (auto& loop : loops_) loops.push_back(&loop->loop());
    absl::StatusOr<std::unique_ptr<Listener>> listener = transport->Listen(
        endpoint, std::move(loops), [this](EventLoop& loop, std::unique_ptr<Connection> accepted) {
          HomeOf(loop).Accept(std::move(accepted));
        });
    if (!listener.ok()) return listener.status();
    std::unique_ptr<Listener> opened = *std::move(listener);
    Endpoint address = opened->address();
    if (!Keep(transport, opened)) {  // Drain came meanwhile
      opened->Stop();
      return Closed();
    }
    Log(LogLevel::kInfo, absl::StrCat("server: listening on ", address.ToString()));
    return address;
  }

  void Drain() {
    if (shared_.draining.exchange(true)) return;
    std::vector<std::unique_ptr<Listener>> listeners;
    {
      MutexLock lock(mutex_);
      closed_ = true;
      listeners.swap(listeners_);
    }
    for (auto& listener : listeners) listener->Stop();
    listeners.clear();
    if (loops_.empty()) return;  // it never listened
    Log(LogLevel::kInfo,
        absl::StrCat("server: draining: no new connections and calls; ", ConnectionsOpen(),
                     " connections are open, ", CallsRunning(), " calls run"));
    for (auto& loop : loops_) {
      loop->loop().Post([home = loop.get()] { home->Drain(); });
    }
  }

  absl::Status Shutdown(Duration grace) {
    Drain();
    const bool drained = WaitUntil(grace, [this] { return Idle(); });
    auto cut = std::make_shared<CutCalls>();
    for (auto& loop : loops_) {
      loop->loop().Post([home = loop.get(), cut] {
        cut->calls += home->Cut(absl::UnavailableError("the server shut down"));
        ++cut->loops;
      });
    }
    WaitUntil(kCloseTime,
              [this, &cut] { return cut->loops == loops_.size() && ConnectionsOpen() == 0; });
    {
      MutexLock lock(mutex_);
      shut_down_ = true;
    }
    shut_down_changed_.notify_all();
    if (drained) return absl::OkStatus();
    if (const size_t held = loops_.size() - cut->loops; held > 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(held, " of ", loops_.size(), " loops are held up by a handler; ",
                       CallsRunning(), " calls run and will be cut short"));
    }
    if (cut->calls == 0) return absl::OkStatus();
    return absl::DeadlineExceededError(
        absl::StrCat(cut->calls.load(), " calls were cut short by the shutdown"));
  }

  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_.native());
    shut_down_changed_.wait(lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return shut_down_; });
  }

  // Handlers use the services' objects: nothing goes before the last one is done. A coroutine needs
  // its loop for that, which may be external and abandoned by whoever drove it.
  void WaitForHandlers() {
    while (!WaitUntil(kComplain, [this] { return CallsRunning() == 0; })) {
      Log(LogLevel::kWarning,
          absl::StrCat("server: waiting for ", CallsRunning(),
                       " handlers that still run although their calls were cancelled"));
    }
    if (shared_.workers != nullptr) shared_.workers->Join();
  }

  // After this no task of a loop refers to this server: loops run what was posted in order.
  void CloseLoops() {
    for (auto& loop : loops_) {
      CloseLoop close(*loop);
      loop->loop().RunBlocking(close).IgnoreError();  // it refuses drivers only
    }
  }

  ServerStats stats() const {
    MutexLock lock(mutex_);
    ServerStats stats{.connections_open = ConnectionsOpen()};
    for (const auto& loop : loops_) AddTo(stats, loop->tally());
    return stats;
  }

  ServerMetrics metrics() const {
    ServerMetrics metrics;
    metrics.totals = stats();
    std::vector<const ServerTally*> tallies;
    std::vector<std::shared_ptr<Transport>> transports;
    {
      MutexLock lock(mutex_);
      for (const auto& loop : loops_) tallies.push_back(&loop->tally());
      transports = transports_;
    }
    std::map<std::string, MethodStats> methods;
    for (const ServerTally* tally : tallies) {
      AddCounts(tally->calls_refused, metrics.calls_refused);
      AddCounts(tally->handshakes_failed, metrics.handshakes_failed);
      AddCounts(tally->connections_closed, metrics.connections_closed);
      tally->methods.AddTo(methods);
    }
    for (auto& [name, method] : methods) metrics.methods.push_back(std::move(method));
    for (size_t loop = 0; loop < tallies.size(); ++loop) {
      AppendConnections(tallies[loop]->connections, loop, metrics);
    }
    metrics.pools = PoolsOf(transports);
    return metrics;
  }

 private:
  static absl::Status Closed() {
    return absl::FailedPreconditionError(
        "this server was shut down (Server::Drain or Shutdown); make another one");
  }

  // Once; a failure leaves none.
  absl::Status MakeLoops() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!loops_.empty()) return absl::OkStatus();
    std::vector<std::shared_ptr<EventLoop>> loops = shared_.options.external_loops;
    for (size_t i = loops.size(); i < shared_.options.loops; ++i) {
      absl::StatusOr<std::shared_ptr<EventLoop>> loop = EventLoop::Create(
          {.mode = shared_.options.mode, .name = absl::StrCat("fc-server", i), .dedicated = true});
      if (!loop.ok()) {
        return absl::Status(loop.status().code(),
                            absl::StrCat("loop ", i + 1, " of ", shared_.options.loops,
                                         " (ServerOptions::loops): ", loop.status().message()));
      }
      loops.push_back(*std::move(loop));
    }
    for (auto& loop : loops) loops_.push_back(std::make_unique<ServerLoop>(loop, shared_));
    return absl::OkStatus();
  }

  // Takes the listener over; false, and it is the caller's, when the server is closed.
  bool Keep(const std::shared_ptr<Transport>& transport, std::unique_ptr<Listener>& listener) {
    MutexLock lock(mutex_);
    transports_.push_back(transport);  // even then: it may have accepted already
    if (closed_) return false;
    listeners_.push_back(std::move(listener));
    return true;
  }

  uint64_t ConnectionsOpen() const {
    return shared_.connections_open.load(std::memory_order_acquire);
  }

  // For those who know that no Listen makes loops any more.
  uint64_t CallsRunning() const {
    uint64_t running = 0;
    for (const auto& loop : loops_) running += loop->tally().CallsRunning();
    return running;
  }

  ServerLoop& HomeOf(EventLoop& loop) {
    return **std::find_if(loops_.begin(), loops_.end(),
                          [&](const auto& home) { return &home->loop() == &loop; });
  }

  // Peers close their connections when they are told that the server drains and their calls are
  // done.
  bool Idle() const { return CallsRunning() == 0 && ConnectionsOpen() == 0; }

  // A loop of somebody else's may have nobody else who drives it now: then this thread does.
  bool MakeTurns() {
    size_t work = 0;
    for (auto& loop : loops_) work += loop->loop().RunOnce();
    return work > 0;
  }

  template <class Condition>
  bool WaitUntil(Duration bound, Condition condition) {
    const TimePoint end = After(Clock::Steady().Now(), bound);
    while (!condition()) {
      if (Clock::Steady().Now() >= end) return false;
      if (!MakeTurns()) std::this_thread::sleep_for(kLook);
    }
    return true;
  }

  ServerShared shared_;
  // Before loops_: a transport outlives the connections that it made.
  std::vector<std::shared_ptr<Transport>> transports_;
  // Written once, under the lock, before the first listener exists.
  std::vector<std::unique_ptr<ServerLoop>> loops_;

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Listener>> listeners_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;     // Drain was called: no listener comes any more
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;  // Shutdown is over
  std::condition_variable shut_down_changed_;
};

Server::Server(ServerOptions options) : state_(std::make_unique<ServerState>(std::move(options))) {}

Server::~Server() {
  Shutdown(Duration(0)).IgnoreError();
  state_->CloseLoops();  // first: a loop that was held up may only now start a last handler
  state_->WaitForHandlers();
}

absl::Status Server::Add(const Service& service) { return state_->Add(service); }

absl::StatusOr<Endpoint> Server::Listen(const std::shared_ptr<Transport>& transport,
                                        const Endpoint& endpoint) {
  return state_->Listen(transport, endpoint);
}

void Server::Drain() { state_->Drain(); }
absl::Status Server::Shutdown(Duration grace) { return state_->Shutdown(grace); }
void Server::Wait() { state_->Wait(); }
ServerStats Server::stats() const { return state_->stats(); }
ServerMetrics Server::metrics() const { return state_->metrics(); }

}  // namespace farcall
