// Failures of a device in the words of whoever has to mend them.

#ifndef FARCALL_TRANSPORTS_RDMA_ERRORS_H_
#define FARCALL_TRANSPORTS_RDMA_ERRORS_H_

#include "absl/status/status.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/loop_device.h"

namespace farcall::rdma {

// What a completion in error means for the connection: the operation, the queue pair, the status in
// the words of verbs, the cause and the remedy. UNAVAILABLE: the peer does not answer, or left;
// INTERNAL: a bug, here or there.
absl::Status FailureOf(const Completion& completion, WorkKind kind);

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_ERRORS_H_
