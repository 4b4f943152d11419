// Faults of a software NIC by a plan, so that an engine meets in every test run what real adapters
// do once a year. The same plan and the same operations give the same faults.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_FAULTS_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_FAULTS_H_

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "farcall/rpc/mutex.h"
#include "farcall/transports/rdma/device.h"

namespace farcall::softnic {

struct Fault {
  enum class Kind : uint8_t {
    kDelay,           // starts `polls` polls later; what is behind it waits
    kLateCompletion,  // done at once, completes `polls` polls later
    kDrop,            // never arrives: kRetryExceeded
    kNotReady,        // SEND: kReceiverNotReady
    kRefuse,          // the peer's device refuses it: kRemoteOperationError
    kPartialRead,     // READ: half of the bytes, then kRemoteOperationError
    kOverrun,         // the completion queue of this request overruns
    kRemoval,         // the device is gone, with all that is on it
  };
  Kind kind = Kind::kDelay;
  std::optional<rdma::Opcode> on = {};  // counts and hits these only
  uint64_t nth = 0;                     // hits the nth of them on the device, from 1; 0: by chance
  uint32_t one_in = 0;                  // by chance: one of so many
  uint32_t polls = 16;
};

struct FaultPlan {
  uint64_t seed = 0;
  std::vector<Fault> faults = {};
};

class Faults {
 public:
  explicit Faults(FaultPlan plan);
  // What befalls the next request. The first fault of the plan that hits. Any thread.
  std::optional<Fault> Next(rdma::Opcode opcode);

 private:
  const std::vector<Fault> plan_;
  Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> seen_ ABSL_GUARDED_BY(mutex_);  // a count for each fault of the plan
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_FAULTS_H_
