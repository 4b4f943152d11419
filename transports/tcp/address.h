// Addresses of sockets: from an Endpoint to the kernel's form and back to text.

#ifndef FARCALL_TRANSPORTS_TCP_ADDRESS_H_
#define FARCALL_TRANSPORTS_TCP_ADDRESS_H_

#include <boost/asio/generic/stream_protocol.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/asio.h"
#include "farcall/rpc/endpoint.h"

namespace farcall::tcp {

// An address of the kernel: IPv4, IPv6 or Unix.
using SocketAddress = asio::generic::stream_protocol::endpoint;

// INVALID_ARGUMENT when this room cannot serve `endpoint`: another scheme, or a path that no socket
// can have. For connecting also when its port is 0.
absl::Status CheckEndpoint(const Endpoint& endpoint, bool connecting);

// The address of a numeric host; nullopt when `endpoint` holds a name.
std::optional<SocketAddress> NumericAddress(const Endpoint& endpoint);

// Of a Unix socket; `endpoint` was checked.
SocketAddress UnixAddress(const Endpoint& endpoint);

// "tcp://10.0.0.7:41022", "tcp://[::1]:7000", "unix:///run/x.sock".
std::string ToText(const SocketAddress& address);

// Both ends of a connected socket. A Unix client has no address of its own: its process and user
// say more ("unix:///run/x.sock (process 4711, user 0)").
struct Names {
  std::string peer;
  std::string local;
};
Names NamesOf(int socket);

// The port that was really bound.
absl::StatusOr<uint16_t> BoundPort(int socket);

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_ADDRESS_H_
