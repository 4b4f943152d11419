// Server: services on as many addresses and loops as it is told.
//
// A connection lives on one loop for its whole life; loops share nothing but the services. Handlers
// run on their connection's loop, those of blocking services on a pool of worker threads. Add
// services, then listen, then Wait or go on.

#ifndef FARCALL_RPC_SERVER_H_
#define FARCALL_RPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/limits.h"
#include "farcall/rpc/metrics.h"
#include "farcall/rpc/service.h"
#include "farcall/rpc/transport.h"

namespace farcall {

struct ServerOptions {
  // Loops, each with a thread of its own in `mode`, started by the first Listen.
  size_t loops = 1;
  ProgressMode mode = ProgressMode::kAdaptive;
  // Instead of those: loops that somebody else drives (tests, simulations). A thread that waits in
  // Shutdown or ~Server drives those that nobody drives meanwhile.
  std::vector<std::shared_ptr<EventLoop>> external_loops = {};

  // Threads for blocking services, started by the first Add of one, and how many calls may wait
  // for one; one more is RESOURCE_EXHAUSTED.
  size_t workers = 8;
  size_t max_waiting_for_workers = 1024;

  MessageLimits limits = {};
  KeepaliveOptions keepalive = {};
  size_t max_connections = 100'000;  // one more is refused with RESOURCE_EXHAUSTED
};

// Totals of all loops.
struct ServerStats {
  uint64_t connections_accepted = 0, connections_refused = 0, connections_open = 0;
  uint64_t calls_started = 0;  // requests whose handler was run
  uint64_t calls_refused = 0;  // answered without a handler: unknown, oversize, malformed, draining
  uint64_t calls_running = 0;
  uint64_t replies_ok = 0, replies_failed = 0;
  uint64_t replies_dropped = 0;  // nobody waited any more
};

// Everything that is counted.
struct ServerMetrics {
  ServerStats totals;
  CountsByStatus calls_refused = {};  // why ServerStats::calls_refused were
  // Connections that ended before the peer's HELLO was accepted, and after: why. A peer that hangs
  // up is UNAVAILABLE; one that max_connections refused is RESOURCE_EXHAUSTED.
  CountsByStatus handshakes_failed = {};
  CountsByStatus connections_closed = {};
  std::vector<MethodStats> methods;  // that were called, by name
  std::vector<ConnectionStats> connections;
  std::vector<ConnectionStats> closed;   // the last of each loop, the oldest end first
  std::vector<BufferPool::Stats> pools;  // of its transports
};

// One line for each method, connection and pool, for people and for grep.
std::string Dump(const ServerMetrics& metrics);

class ServerState;

class Server {
 public:
  explicit Server(ServerOptions options = {});
  // Shutdown without a grace period, then waits for handlers that still run (they use the services'
  // objects), saying in the log that it does. Not from a handler.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Before Listen. ALREADY_EXISTS for a second service of a name or for colliding method ids;
  // FAILED_PRECONDITION after Listen or Drain; RESOURCE_EXHAUSTED when ServerOptions::workers
  // cannot be started. The object that the service is bound to must outlive the server.
  absl::Status Add(const Service& service);

  // Accepts connections at `endpoint` from now on; returns the address that clients can dial (the
  // port that was bound). farcall::Listen (transports/dial.h) is the usual way. Any thread but a
  // handler's. Errors as Transport::Listen; RESOURCE_EXHAUSTED when the loops cannot be made;
  // FAILED_PRECONDITION after Drain or Shutdown: a server lives once.
  absl::StatusOr<Endpoint> Listen(const std::shared_ptr<Transport>& transport,
                                  const Endpoint& endpoint);

  // Stops accepting and tells every peer that no new calls are taken; calls under way go on. A peer
  // without calls that has not closed its connection one to two seconds later loses it. Any thread;
  // returns at once.
  void Drain();

  // Drains, waits up to `grace` (Duration::max(): as long as it takes) for the calls under way,
  // then cancels what is left and closes every connection. OK when nothing was cut short, else
  // DEADLINE_EXCEEDED with the number; also when a handler holds its loop up for a second beyond
  // `grace`, so that its calls will be cut when it lets go. Not from a handler.
  absl::Status Shutdown(Duration grace);

  // Returns once Shutdown, on another thread, is through.
  void Wait();

  // Any thread; they do not wait for the loops.
  ServerStats stats() const;
  ServerMetrics metrics() const;

 private:
  std::unique_ptr<ServerState> state_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_SERVER_H_
