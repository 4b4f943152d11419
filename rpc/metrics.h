// What a server or a channel counts, as plain numbers that anybody may keep, compare and print.
//
// Server::metrics() and Channel::metrics() take them, on any thread, without a word to the loops:
// also when a handler holds one up. They are as old as the reading; numbers that belong together
// may differ by what happened meanwhile. Latencies are nanoseconds, by the loop's clock.

#ifndef FARCALL_RPC_METRICS_H_
#define FARCALL_RPC_METRICS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/histogram.h"
#include "farcall/rpc/transport.h"

namespace farcall {

// A quantile is at most 6 % off, of a connection 12 %: of those there may be many thousands.
using MethodLatency = Histogram<3>;
using ConnectionLatency = Histogram<2>;

// By absl::StatusCode; the first is OK.
inline constexpr size_t kStatusCodes = 17;
using CountsByStatus = std::array<uint64_t, kStatusCodes>;

struct MethodStats {
  std::string name;           // "namespace.Service/Method"
  uint64_t started = 0;       // server: requests whose handler was run
  uint64_t running = 0;       // of them, those that have not ended
  CountsByStatus ended = {};  // and those that have
  uint64_t refused = 0;       // server: answered without a handler, not among `started`;
                              // channel: of the ended, those that the server said it did not run
  uint64_t not_sent = 0;      // channel: of the ended, those of which no byte left
  uint64_t dropped = 0;       // server: of the ended, those for whose reply nobody waited any more
  uint64_t bytes_sent = 0;    // channel: requests; server: replies. Heads and payloads
  uint64_t bytes_received = 0;
  // Channel: of all that ended, from the caller's method to the turn of the loop that brought the
  // end. Server: of all that ended, from the turn that brought the whole request until the reply
  // was given to the transport.
  MethodLatency latency;
};

// Of many values.
struct LatencySummary {
  uint64_t count = 0;
  double p50_ns = 0, p90_ns = 0, p99_ns = 0, p999_ns = 0;
  uint64_t max_ns = 0;
};

template <int SubBucketBits>
LatencySummary Summarize(const Histogram<SubBucketBits>& latency) {
  return {.count = latency.count(),
          .p50_ns = latency.Quantile(0.5),
          .p90_ns = latency.Quantile(0.9),
          .p99_ns = latency.Quantile(0.99),
          .p999_ns = latency.Quantile(0.999),
          .max_ns = latency.max()};
}

struct ConnectionStats {
  enum class State : uint8_t {
    kHandshake,  // no HELLO yet
    kReady,
    kDraining,  // the server takes no new calls
    kClosing,   // its end is decided
    kClosed,
  };

  uint64_t id = 0;    // counts up from 1, on each loop of a server and in each channel
  uint64_t loop = 0;  // of a server, from 0
  State state = State::kHandshake;
  std::string peer;
  std::string transport;
  Duration age = {};  // of its whole life, when it is closed
  std::string end;    // closed: why
  uint64_t calls_started = 0;
  uint64_t calls_running = 0;
  uint64_t calls_refused = 0;   // as MethodStats::refused
  uint64_t held_bytes = 0;      // server: that its running requests hold
  uint64_t unread_answers = 0;  // that wait for the peer to read them
  uint64_t unread_bytes = 0;
  ConnectionCounters counters;
  LatencySummary latency;
};

// "NOT_FOUND=3,UNAVAILABLE=1": those that are not zero, without OK; "-" when there are none.
std::string Describe(const CountsByStatus& counts);

// Of the pools of all `transports`, each once.
std::vector<BufferPool::Stats> PoolsOf(const std::vector<std::shared_ptr<Transport>>& transports);

}  // namespace farcall

#endif  // FARCALL_RPC_METRICS_H_
