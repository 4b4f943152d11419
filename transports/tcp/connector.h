// Connector: one Connect, from a name to a connected socket. Resolves (in Asio's resolver thread,
// never on the loop), then tries the addresses one after the other, each with an equal share of the
// time that is left.

#ifndef FARCALL_TRANSPORTS_TCP_CONNECTOR_H_
#define FARCALL_TRANSPORTS_TCP_CONNECTOR_H_

#include <memory>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/tcp/connection.h"

namespace farcall::tcp {

// Contract's Connect.
std::unique_ptr<Transport::PendingConnect> StartConnect(EventLoop& loop, const Endpoint& endpoint,
                                                        TimePoint deadline,
                                                        Transport::ConnectDone done,
                                                        std::shared_ptr<const Settings> settings);

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_CONNECTOR_H_
