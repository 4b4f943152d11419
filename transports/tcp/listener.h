// Listening: one socket, whose connections are spread over loops.

#ifndef FARCALL_TRANSPORTS_TCP_LISTENER_H_
#define FARCALL_TRANSPORTS_TCP_LISTENER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/tcp/connection.h"

namespace farcall::tcp {

// Contract's Listen. A host name is resolved on the calling thread.
absl::StatusOr<std::unique_ptr<Listener>> StartListening(const Endpoint& endpoint,
                                                         std::vector<EventLoop*> loops,
                                                         Transport::Acceptor acceptor,
                                                         std::shared_ptr<const Settings> settings);

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_LISTENER_H_
