#include "farcall/rpc/connection_list.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "farcall/rpc/method_tally.h"
#include "farcall/rpc/session.h"

namespace farcall {
namespace {

// Enough to see why the last ones went; a thousand that come and go leave no more than this.
constexpr size_t kKeptClosed = 16;
// The reason may be the peer's own words.
constexpr size_t kMaxReasonBytes = 256;
// Read while the driver cannot open or close a connection: some tens of microseconds.
constexpr size_t kReadAtOnce = 64;

}  // namespace

ConnectionTally::~ConnectionTally() { delete latency_.load(std::memory_order_relaxed); }

void ConnectionTally::MakeLatency() {
  latency_.store(std::make_unique<ConnectionLatency>().release(), std::memory_order_release);
}

void ConnectionTally::End(Duration took) {
  ++ended_;
  latency_.load(std::memory_order_relaxed)->Record(Nanoseconds(took));
}

void ConnectionTally::AddTo(ConnectionStats& stats) const {
  const uint64_t ended = ended_;
  stats.calls_started = started;
  stats.calls_running = stats.calls_started - std::min(stats.calls_started, ended);
  stats.calls_refused = refused;
  stats.held_bytes = held_bytes;
  if (const auto* latency = latency_.load(std::memory_order_acquire); latency != nullptr) {
    stats.latency = Summarize(*latency);
  }
}

uint64_t ConnectionList::Add(const Session& session) {
  MutexLock lock(mutex_);
  open_.emplace(++last_id_, &session);
  return last_id_;
}

void ConnectionList::Remove(uint64_t id) {
  MutexLock lock(mutex_);
  open_.erase(id);
}

void ConnectionList::KeepClosed(ConnectionStats stats) {
  stats.end.resize(std::min(stats.end.size(), kMaxReasonBytes));
  MutexLock lock(mutex_);
  if (closed_.size() == kKeptClosed) closed_.pop_front();
  closed_.push_back(std::move(stats));
}

void ConnectionList::AppendOpen(std::vector<ConnectionStats>& to) const {
  uint64_t after = 0;
  while (true) {
    MutexLock lock(mutex_);
    auto next = open_.upper_bound(after);
    for (size_t read = 0; read < kReadAtOnce; ++read, ++next) {
      if (next == open_.end()) return;
      to.push_back(next->second->stats());
      to.back().id = after = next->first;
    }
  }
}

void ConnectionList::AppendClosed(std::vector<ConnectionStats>& to) const {
  MutexLock lock(mutex_);
  to.insert(to.end(), closed_.begin(), closed_.end());
}

}  // namespace farcall
