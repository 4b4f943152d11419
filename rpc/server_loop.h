// ServerLoop: the part of a server that lives on one event loop: its connections and its recycled
// calls. ServerShared: what the loops of one server have in common. For rpc/ itself; users hold a
// Server.

#ifndef FARCALL_RPC_SERVER_LOOP_H_
#define FARCALL_RPC_SERVER_LOOP_H_

#include <atomic>
#include <list>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "farcall/rpc/connection_list.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/log.h"
#include "farcall/rpc/method_table.h"
#include "farcall/rpc/method_tally.h"
#include "farcall/rpc/server.h"
#include "farcall/rpc/server_call.h"
#include "farcall/rpc/session.h"
#include "farcall/rpc/tally.h"
#include "farcall/rpc/worker_pool.h"

namespace farcall {

class ServerSession;

// What one loop of a server counts: its driver writes, any thread reads.
struct ServerTally {
  // Calls whose handler is not done. Also tells a server that ends that it may: what the handlers
  // did before is seen by whoever reads 0.
  uint64_t CallsRunning() const {
    const uint64_t ended = calls_ended.Acquire();  // first: what is running is never negative
    return calls_started - ended;
  }

  Tally connections_accepted, connections_refused;
  Tally calls_started, calls_ended;
  Tally replies_ok, replies_failed, replies_dropped;
  TalliesByStatus calls_refused;
  TalliesByStatus handshakes_failed, connections_closed;
  MethodTallies methods;
  ConnectionList connections;
};

struct ServerShared {
  ServerOptions options;
  MethodTable methods;  // constant once listening
  // On all loops: max_connections bounds it.
  std::atomic<uint64_t> connections_open{0};
  std::atomic<bool> draining{false};
  std::unique_ptr<WorkerPool> workers;
  std::atomic<size_t> waiting_for_workers{0};
};

class ServerLoop final : private Timer {
 public:
  ServerLoop(std::shared_ptr<EventLoop> loop, ServerShared& shared);
  ~ServerLoop() override;

  EventLoop& loop() const { return *loop_; }
  const std::shared_ptr<EventLoop>& shared_loop() const { return loop_; }
  ServerShared& shared() const { return shared_; }
  // Any thread reads it.
  const ServerTally& tally() const { return tally_; }

  // ---- driver only ----
  void Accept(std::unique_ptr<Connection> connection);
  ServerTally& tally() { return tally_; }
  // Logs what peers can make happen as often as they like.
  void Warn(std::string_view line) { warnings_.Warn(loop_->now(), line); }
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
  // Takes a place in the queue of the workers, for a call that Dispatch gets next, if `method` runs
  // there. Not OK: there is none left (max_waiting_for_workers).
  absl::Status Queue(const BoundMethod& method);
  // Runs the handler of a call that is whole, here or on a worker.
  void Dispatch(ServerCall& call);

  // Calls are recycled: taking one allocates only when more run at once than ever before.
  ServerCall& TakeCall();
  void GiveBack(ServerCall& call);
  // A connection has ended: no call that is not under way keeps anything of it.
  void Forget(const PeerIdentity& peer);

 private:
  void OnTimer() override;  // while draining

  const std::shared_ptr<EventLoop> loop_;
  ServerShared& shared_;
  LogThrottle warnings_;
  ServerTally tally_;  // before the sessions, which are listed in it
  // In the order of acceptance, so that what is told to all is told in the same order in every run.
  std::list<std::unique_ptr<ServerSession>> sessions_;
  absl::flat_hash_map<ServerSession*, std::list<std::unique_ptr<ServerSession>>::iterator> places_;
  std::vector<std::unique_ptr<ServerCall>> calls_;  // all that exist
  std::vector<ServerCall*> free_calls_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_SERVER_LOOP_H_
