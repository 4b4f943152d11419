// The server's side: which token was given to which session, and which sessions came by one.
//
// Thread-safe: a path's connection lives on another loop than the one that it was offered on.

#ifndef FARCALL_TRANSPORTS_AUTO_BINDINGS_H_
#define FARCALL_TRANSPORTS_AUTO_BINDINGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/path.h"

namespace farcall::paths {

class Bindings {
 public:
  // For a caller to connect and say HELLO by two paths, one after the other.
  static constexpr Duration kTokenLife = std::chrono::seconds(15);
  // Sessions beside one: those in use, and those that drain.
  static constexpr size_t kMaxPaths = 8;

  // A session over TCP; until Leave.
  uint64_t EnterMain();
  // A session that came by the path `name` with `token`. PERMISSION_DENIED: that was not given to
  // anybody, or for another path, was taken before, is too old, or its session is gone.
  absl::StatusOr<uint64_t> EnterPath(std::string_view name, std::string_view token,
                                     PathHost::EndPath end, TimePoint now);
  // A token for the path `name`, once; UNAVAILABLE: the session is gone, or the system has no
  // random numbers.
  absl::StatusOr<std::string> NewToken(uint64_t session, std::string_view name, TimePoint now);
  // What the session was given and did not take is void.
  void VoidTokens(uint64_t session);
  size_t Paths(uint64_t session) const;
  // Ends the paths beside it.
  void Leave(uint64_t session);

  size_t tokens() const;

 private:
  struct Given {
    uint64_t session;
    std::string name;
    TimePoint until;
  };
  struct Session {
    uint64_t main = 0;                 // of a path: the session it is beside; 0: it is a main one
    PathHost::EndPath end = {};        // of a path
    std::vector<uint64_t> paths = {};  // of a main one
    std::vector<std::string> tokens = {};  // likewise: not taken yet
  };

  void DropTokens(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Session> sessions_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Given> given_ ABSL_GUARDED_BY(mutex_);  // by token
};

// Bytes that nobody can guess. UNAVAILABLE: the system has none.
absl::StatusOr<std::string> RandomBytes(size_t bytes);

}  // namespace farcall::paths

#endif  // FARCALL_TRANSPORTS_AUTO_BINDINGS_H_
