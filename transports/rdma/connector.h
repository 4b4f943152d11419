// Connector: one Connect, from an address to a connection. Resolves, makes the queue pair with its
// receives, and asks the peer, each within its time.

#ifndef FARCALL_TRANSPORTS_RDMA_CONNECTOR_H_
#define FARCALL_TRANSPORTS_RDMA_CONNECTOR_H_

#include <memory>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/settings.h"

namespace farcall::rdma {

// Contract's Connect.
std::unique_ptr<Transport::PendingConnect> StartConnect(EventLoop& loop, const Endpoint& endpoint,
                                                        TimePoint deadline,
                                                        Transport::ConnectDone done,
                                                        std::shared_ptr<const Settings> settings);

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_CONNECTOR_H_
