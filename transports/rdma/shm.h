// Messages between processes of one host and one user, over the software NIC ("shm://name"): the
// protocol and the cost shape of RDMA in shared memory, with no system call where data moves.

#ifndef FARCALL_TRANSPORTS_RDMA_SHM_H_
#define FARCALL_TRANSPORTS_RDMA_SHM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/rdma.h"
#include "farcall/transports/rdma/softnic/softnic.h"

namespace farcall {

struct ShmOptions {
  RdmaOptions rdma = {};
  softnic::SoftnicOptions device = {};
};

// As MakeRdmaTransport.
std::shared_ptr<Transport> MakeShmTransport(ShmOptions options = {});

// MeasureThreshold (transports/rdma/measure.h) for such a transport: a value for
// ShmOptions::rdma.threshold.
absl::StatusOr<uint32_t> MeasureShmThreshold(const ShmOptions& options = {},
                                             Duration at_most = std::chrono::milliseconds(200));

// INVALID_ARGUMENT, with the reason, for an endpoint that Connect of such a transport can never
// reach: another scheme, or no name.
absl::Status CheckShmEndpoint(const Endpoint& endpoint);

// The folder in which this user's listeners are found, a socket each by its name; made when it is
// missing. PERMISSION_DENIED or UNAVAILABLE: why it cannot be used.
absl::StatusOr<std::string> ShmFolder(const ShmOptions& options = {});

}  // namespace farcall

#endif  // FARCALL_TRANSPORTS_RDMA_SHM_H_
