// From a connected socket to a Connection.

#ifndef FARCALL_TRANSPORTS_TCP_CONNECTION_H_
#define FARCALL_TRANSPORTS_TCP_CONNECTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/tcp/socket_setup.h"
#include "farcall/transports/tcp/stream.h"
#include "farcall/transports/tcp/tcp.h"

namespace farcall::tcp {

// What a transport's connections have in common. Constant.
struct Settings {
  TcpOptions options;
  Pools pools;
};

// Takes a connected, nonblocking socket over, on the driver of `loop`. Our preamble leaves in this
// turn. Not OK: the kernel refuses an option or a registration.
absl::StatusOr<std::unique_ptr<Connection>> MakeConnection(EventLoop& loop, Descriptor descriptor,
                                                           const Settings& settings);

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_CONNECTION_H_
