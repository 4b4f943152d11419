// Paths: other ways to the same peer than the connection that a channel was dialled by.
//
// A channel whose transport has a PathSelector asks its server for offers (OFFERS in
// rpc/wire_format.md), tries the paths that the selector makes of them, and sends its calls by the
// best that works. A server tells of other paths when its listener left a PathHost with the
// connections that it accepted. What an offer says is known to those two only. Tokens bind a path's
// connection to the session that was offered it; they authenticate nobody.

#ifndef FARCALL_RPC_PATH_H_
#define FARCALL_RPC_PATH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/backoff.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/endpoint.h"

namespace farcall {

class Transport;
struct ConnectionInfo;

// Any bytes, of a peer.
struct PathOffer {
  std::string name;
  std::string value;
};

// A path that is better than the connection that was dialled.
struct PathCandidate {
  std::string name;            // "shm"
  absl::Status unusable = {};  // not OK: why it cannot be tried now; then that is all
  std::shared_ptr<Transport> transport = {};  // connects to
  Endpoint endpoint = {};
  std::string token = {};  // for the HELLO; never logged
};

// The caller's side. Belongs to one channel and its loop's driver.
class PathSelector {
 public:
  virtual ~PathSelector() = default;
  // All paths that are better, the best first; the same names in the same order whatever `offers`,
  // which are a peer's bytes, say. Does not block.
  virtual std::vector<PathCandidate> Select(const std::vector<PathOffer>& offers) = 0;
};

// The server's side: what peers are offered, and who comes by it. Thread-safe.
class PathHost {
 public:
  virtual ~PathHost() = default;

  // Ends a session that came by a path; any thread, at most once, never inside Enter.
  using EndPath = std::function<void(const absl::Status& reason)>;

  // A connection's HELLO came, with `token`; it may be empty. OK: the session's id, until Leave. A
  // token is taken once; its session ends, by `end`, when the session that was offered it leaves.
  virtual absl::StatusOr<uint64_t> Enter(const ConnectionInfo& over, std::string_view token,
                                         EndPath end, TimePoint now) = 0;
  // Fresh offers; what `session` was offered before and did not take is void.
  virtual std::vector<PathOffer> Offer(uint64_t session, const ConnectionInfo& over,
                                       TimePoint now) = 0;
  // Sessions that came by what `session` was offered, and have not left.
  virtual size_t Paths(uint64_t session) const = 0;
  virtual void Leave(uint64_t session) = 0;
};

// How a channel treats paths. Each wait of an attempt is bounded; calls never wait for one.
struct PathOptions {
  Duration offer_timeout = std::chrono::seconds(5);   // for the answer to a question for offers
  Duration attach_timeout = std::chrono::seconds(2);  // to connect, and again for the HELLO
  Duration probe_timeout = std::chrono::seconds(2);   // for a probe to come back
  // After a path failed. One that cannot be tried here, or is not offered, is looked at again after
  // `max`.
  BackoffOptions cool_down = {.first = std::chrono::milliseconds(100),
                              .max = std::chrono::seconds(30),
                              .factor = 2,
                              .jitter = 0.2};
};

// What a channel says of its paths.
struct PathReport {
  struct Unused {
    std::string name;
    std::string reason;  // why it does not carry calls
  };
  std::string in_use = {};  // that carries new calls: "tcp", "shm", "rdma"; empty: none does
  Duration age = {};        // since when
  uint64_t changes = 0;     // of in_use, from one path to another
  bool looking = false;     // a better one is being tried
  std::vector<Unused> better = {};  // than the one in use, the best first
};

}  // namespace farcall

#endif  // FARCALL_RPC_PATH_H_
