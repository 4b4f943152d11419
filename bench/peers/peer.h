// The seam of a peer: an RPC or message library of others that runs our workloads. A peer's program
// is one file that implements Peer, and peer_main.cc, which measures it; the demo starts the
// program twice, as the server and as the client (demo/peer_subject.h).
#ifndef FARCALL_BENCH_PEERS_PEER_H_
#define FARCALL_BENCH_PEERS_PEER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/bench/measure/recorder.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// What a workload sends. A body begins and ends with a stamp of the call (measure/payload.h).
struct PeerSizes {
  explicit PeerSizes(const Workload& workload);

  size_t outstanding;    // calls in flight, each in a slot: 0 to outstanding - 1
  size_t request_bytes;  // of each request's body, and of each reply's
  size_t reply_bytes;
  bool echo;  // the reply's body is the request's
};

// The server's part: answers that are no echo.
class PeerAnswers {
 public:
  explicit PeerAnswers(const PeerSizes& sizes) : sizes_(sizes) {}
  // Writes the reply to `request` into `reply`, of reply_bytes: its stamps, and more only where it
  // will be compared in full. Memory that is used again for replies is best left as it is.
  // INVALID_ARGUMENT: no request of ours.
  absl::Status Write(std::span<const uint8_t> request, std::span<uint8_t> reply) const;

 private:
  const PeerSizes sizes_;
};

// The client's calls, which are built, checked and recorded here and carried by the peer. Not
// thread-safe: a peer with several threads has a lock around it.
class PeerCalls {
 public:
  // `server`: whose CPU time counts besides this process's.
  PeerCalls(const Workload& workload, pid_t server);

  const PeerSizes& sizes() const { return sizes_; }

  // Begins the next call of `slot`, whose last one is over: its request is written into `request`,
  // of request_bytes. As PeerAnswers::Write.
  void Begin(size_t slot, std::span<uint8_t> request);
  // The call of `slot` has ended with this reply. True: begin another one.
  bool End(size_t slot, std::span<const uint8_t> reply);
  // For a peer that does not know which call a reply is for: it is in the reply. INTERNAL: it is
  // for none of ours.
  absl::StatusOr<size_t> SlotOf(std::span<const uint8_t> reply) const;

  // When no call is under way any more.
  absl::StatusOr<Measurement> Result() &&;

 private:
  bool ComparesInFull(size_t slot) const { return number_[slot] < 2 * sizes_.outstanding; }

  const Workload workload_;
  const pid_t server_;
  const PeerSizes sizes_;
  std::vector<uint64_t> number_;      // of the call of each slot: slot, modulo outstanding
  std::vector<uint64_t> started_ns_;  // when it began
  uint64_t now_ns_;                   // as it was last looked at
  size_t compared_ = 0;
  uint64_t wrong_ = 0;  // of those compared in full
  std::string first_wrong_;
  std::optional<Recorder> recorder_;  // once each slot has had its first call
};

// From now on the sockets of this process have measure/socket_options.h's congestion control, its
// libraries' included.
void UseOneCongestionControl();

class Peer {
 public:
  virtual ~Peer() = default;
  // Its version and its settings, in one line.
  virtual std::string About() const = 0;
  // Serves one client after the other until the process is killed. `listening(address)` when it is
  // ready; the address is one word.
  virtual absl::Status Serve(const PeerSizes& sizes,
                             const std::function<void(const std::string&)>& listening) = 0;
  // Connects, and makes calls in all slots until none is to begin and none is under way.
  virtual absl::Status Call(const std::string& address, PeerCalls& calls) = 0;
};

// Of the peer's own file: the peer in the variant of that name ("shm", "tcp", "sync"); nullptr: it
// has none of that name.
std::unique_ptr<Peer> MakePeer(std::string_view variant);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_PEERS_PEER_H_
