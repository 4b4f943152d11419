// LoopbackNetwork: who listens under which name.

#ifndef FARCALL_TRANSPORTS_LOOPBACK_NETWORK_H_
#define FARCALL_TRANSPORTS_LOOPBACK_NETWORK_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "farcall/rpc/mutex.h"

namespace farcall {

namespace loopback {
class Accepting;
}

// Thread-safe.
class LoopbackNetwork {
 public:
  // UNAVAILABLE when the name is taken.
  absl::Status Add(const std::string& name, std::shared_ptr<loopback::Accepting> accepting);
  // A no-op when the name is not, or no longer, that listener's.
  void Remove(const std::string& name, const loopback::Accepting* accepting);
  // nullptr: nobody listens there.
  std::shared_ptr<loopback::Accepting> Find(const std::string& name) const;

  // The address of one more client of `name`, as its server sees it: "loopback://name#7".
  std::string NewClientAddress(const std::string& name);

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<loopback::Accepting>> names_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> clients_ = 0;
};

}  // namespace farcall

#endif  // FARCALL_TRANSPORTS_LOOPBACK_NETWORK_H_
