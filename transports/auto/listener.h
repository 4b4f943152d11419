// Listening by all paths at once: on TCP, on a random name in shared memory, and for RDMA.

#ifndef FARCALL_TRANSPORTS_AUTO_LISTENER_H_
#define FARCALL_TRANSPORTS_AUTO_LISTENER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/rpc/endpoint.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/auto/auto.h"

namespace farcall::paths {

// As Transport::Listen, for an endpoint auto://host:port.
absl::StatusOr<std::unique_ptr<Listener>> StartListening(const Endpoint& endpoint,
                                                         std::vector<EventLoop*> loops,
                                                         Transport::Acceptor acceptor,
                                                         const AutoOptions& options);

}  // namespace farcall::paths

#endif  // FARCALL_TRANSPORTS_AUTO_LISTENER_H_
