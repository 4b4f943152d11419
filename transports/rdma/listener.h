// Listening: one address of a device, whose connections are spread over loops.

#ifndef FARCALL_TRANSPORTS_RDMA_LISTENER_H_
#define FARCALL_TRANSPORTS_RDMA_LISTENER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/settings.h"

namespace farcall::rdma {

// Contract's Listen.
absl::StatusOr<std::unique_ptr<Listener>> StartListening(const Endpoint& endpoint,
                                                         std::vector<EventLoop*> loops,
                                                         Transport::Acceptor acceptor,
                                                         std::shared_ptr<const Settings> settings);

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_LISTENER_H_
