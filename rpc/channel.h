// Channel: the caller's way to one server, over as many connections as time brings.
//
// A cheap handle: copies share one connection. It connects at once, and again when the connection
// is lost: first immediately, then with growing pauses. Thread-safe. When the last handle is gone
// the channel ends: calls under way end with CANCELLED. That may happen in any callback.

#ifndef FARCALL_RPC_CHANNEL_H_
#define FARCALL_RPC_CHANNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/backoff.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/limits.h"
#include "farcall/rpc/metrics.h"
#include "farcall/rpc/path.h"
#include "farcall/rpc/session.h"
#include "farcall/rpc/transport.h"

namespace farcall {

class ChannelCore;
class ClientCall;

struct ChannelOptions {
  // Who makes progress. Empty: a loop of the channel's own, in `mode`.
  std::shared_ptr<EventLoop> loop = {};
  ProgressMode mode = ProgressMode::kAdaptive;

  Duration default_timeout = std::chrono::seconds(10);  // of calls that name none
  Duration connect_timeout = std::chrono::seconds(5);   // of one attempt
  BackoffOptions backoff = {};                          // between attempts to connect
  PathOptions paths = {};  // where the transport has more than one (auto://)
  MessageLimits limits = {};
  KeepaliveOptions keepalive = {};
  // Calls that wait for a connection or for a place among the peer's max_calls_in_flight; one more
  // is RESOURCE_EXHAUSTED.
  size_t max_waiting_calls = 65536;
  std::string authentication = {};  // opaque, told to the server in HELLO
};

struct ChannelStats {
  uint64_t started = 0, succeeded = 0, failed = 0;  // calls
  uint64_t not_sent = 0, not_run = 0, unknown = 0;  // of the failed: their Outcome
  uint64_t late_replies = 0;                        // to calls that had ended
  uint64_t repeated = 0;  // idempotent ones that were sent again when their connection was lost
  uint64_t connects = 0, connect_failures = 0;
};

struct ChannelInfo {
  enum class State { kConnecting, kReady, kBackoff, kClosed };
  State state = State::kConnecting;
  std::string endpoint;       // as dialled
  ConnectionInfo connection;  // of the path in use; empty unless ready
  PathReport paths;           // the same; which better ones there are, and why they are not in use
  absl::Status last_error;    // of the last attempt or connection that failed
  ChannelStats stats;
};

// Everything that is counted. A call that could not be built is not.
struct ChannelMetrics {
  std::string endpoint;  // as dialled
  ChannelInfo::State state = ChannelInfo::State::kConnecting;
  std::string last_error;      // of the last attempt or connection that failed
  uint64_t waiting_calls = 0;  // for a connection or for a place among the peer's limit
  ChannelStats totals;
  PathReport paths;                          // empty where the transport has one path only
  std::vector<MethodStats> methods;          // that were called, by name
  std::vector<ConnectionStats> connections;  // those in use, and those that drain
  std::vector<ConnectionStats> closed;       // the last of them, the oldest end first
  std::vector<BufferPool::Stats> pools;      // of its transport
};

// One line for each method, connection and pool, for people and for grep.
std::string Dump(const ChannelMetrics& metrics);

class Channel {
 public:
  // Connects through `transport` to `endpoint`. Returns at once; farcall::Dial (transports/dial.h)
  // is the usual way. Throws what EventLoop's constructor does when it has to make a loop.
  Channel(std::shared_ptr<Transport> transport, Endpoint endpoint, ChannelOptions options = {});
  // The same, but RESOURCE_EXHAUSTED, with what is missing, when no loop can be made.
  static absl::StatusOr<Channel> Create(std::shared_ptr<Transport> transport, Endpoint endpoint,
                                        ChannelOptions options = {});

  // Any thread. Asks the loop: not from inside a lock that a callback takes.
  ChannelInfo info() const;
  // Any thread; does not wait for the loop.
  ChannelMetrics metrics() const;

  // Where callbacks and coroutines of this channel run by default.
  EventLoop& loop() const;
  const ChannelOptions& options() const;

  // Memory that the connection in use sends without a copy.
  std::shared_ptr<BufferPool> pool() const;

  ChannelCore& core() const { return *core_; }

 private:
  std::shared_ptr<ChannelCore> core_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_CHANNEL_H_
