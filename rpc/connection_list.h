// What is counted of each connection, and the list of those that are open and of the last that are
// not: what stands behind ConnectionStats (rpc/metrics.h). A list is one loop's of a server, or one
// channel's.

#ifndef FARCALL_RPC_CONNECTION_LIST_H_
#define FARCALL_RPC_CONNECTION_LIST_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "farcall/rpc/clock.h"
#include "farcall/rpc/metrics.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/tally.h"

namespace farcall {

class Session;

// The cells of one connection's calls. The driver counts, any thread reads.
class ConnectionTally {
 public:
  ConnectionTally() = default;
  ~ConnectionTally();
  ConnectionTally(const ConnectionTally&) = delete;
  ConnectionTally& operator=(const ConnectionTally&) = delete;

  // Makes room for latencies, with a connection's first call: those without calls stay small.
  void Reserve() {
    if (latency_.load(std::memory_order_relaxed) == nullptr) MakeLatency();
  }
  // After Reserve.
  void End(Duration took);
  // Any thread.
  void AddTo(ConnectionStats& stats) const;

  Tally started, refused, held_bytes;

 private:
  void MakeLatency();

  Tally ended_;
  std::atomic<ConnectionLatency*> latency_{nullptr};  // owned
};

class ConnectionList {
 public:
  ConnectionList() = default;
  ConnectionList(const ConnectionList&) = delete;
  ConnectionList& operator=(const ConnectionList&) = delete;

  // ---- driver only ----
  // Until Remove `session` may be read on any thread. Returns its id.
  uint64_t Add(const Session& session);
  void Remove(uint64_t id);
  // Keeps what is to be told of a connection that ended, for a while.
  void KeepClosed(ConnectionStats stats);

  // ---- any thread: holds the driver up for some connections at most ----
  // Appends the open ones, by age, and the last that were closed, the oldest end first.
  void AppendOpen(std::vector<ConnectionStats>& to) const;
  void AppendClosed(std::vector<ConnectionStats>& to) const;

 private:
  mutable Mutex mutex_;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, const Session*> open_ ABSL_GUARDED_BY(mutex_);
  std::deque<ConnectionStats> closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farcall

#endif  // FARCALL_RPC_CONNECTION_LIST_H_
