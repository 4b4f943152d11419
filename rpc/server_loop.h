// ServerLoop: the part of a server that lives on one event loop: its connections and its recycled
// calls. ServerShared: what the loops of one server have in common. For rpc/ itself; users hold a
// Server.

#ifndef FARCALL_RPC_SERVER_LOOP_H_
#define FARCALL_RPC_SERVER_LOOP_H_

#include <atomic>
#include <list>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/method_table.h"
#include "farcall/rpc/server.h"
#include "farcall/rpc/server_call.h"
#include "farcall/rpc/session.h"
#include "farcall/rpc/worker_pool.h"

namespace farcall {

class ServerSession;

struct ServerCounters {
  std::atomic<uint64_t> connections_accepted{0}, connections_refused{0}, connections_open{0};
  std::atomic<uint64_t> calls_started{0}, calls_refused{0}, calls_running{0};
  std::atomic<uint64_t> replies_ok{0}, replies_failed{0}, replies_dropped{0};
};

// Relaxed: counters order nothing.
inline void Count(std::atomic<uint64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
}

struct ServerShared {
  ServerOptions options;
  MethodTable methods;  // constant once listening
  ServerCounters counters;
  std::atomic<bool> draining{false};
  std::unique_ptr<WorkerPool> workers;
  std::atomic<size_t> waiting_for_workers{0};
};

class ServerLoop final : private Timer {
 public:
  ServerLoop(std::shared_ptr<EventLoop> loop, ServerShared& shared);
  ~ServerLoop() override;

  EventLoop& loop() const { return *loop_; }
  ServerShared& shared() const { return shared_; }

  // ---- driver only ----
  void Accept(std::unique_ptr<Connection> connection);
  // Takes a session that has ended; it is destroyed in a later turn.
  void Bury(ServerSession& session);
  // Says GOAWAY to every peer, and from then on ends the connections that their peers should have.
  void Drain();
  // Closes every connection; the handlers that still run are cancelled. Returns how many there
  // were.
  size_t Cut(const absl::Status& reason);
  // Destroys the connections that did not close in time. Nothing is accepted and no handler runs
  // any more.
  void Close();
  // Runs the handler of a call that is whole, here or on a worker.
  void Dispatch(ServerCall& call);

  // Calls are recycled: taking one allocates only when more run at once than ever before.
  ServerCall& TakeCall();
  void GiveBack(ServerCall& call);

 private:
  void OnTimer() override;  // while draining

  const std::shared_ptr<EventLoop> loop_;
  ServerShared& shared_;
  // In the order of acceptance, so that what is told to all is told in the same order in every run.
  std::list<std::unique_ptr<ServerSession>> sessions_;
  absl::flat_hash_map<ServerSession*, std::list<std::unique_ptr<ServerSession>>::iterator> places_;
  std::vector<std::unique_ptr<ServerCall>> calls_;  // all that exist
  std::vector<ServerCall*> free_calls_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_SERVER_LOOP_H_
