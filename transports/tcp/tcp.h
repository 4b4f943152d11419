// The door of this room: messages over TCP ("tcp://host:port") and Unix stream sockets
// ("unix:///path"), on Boost.Asio.

#ifndef FARCALL_TRANSPORTS_TCP_TCP_H_
#define FARCALL_TRANSPORTS_TCP_TCP_H_

#include <cstddef>
#include <memory>
#include <string>

#include "farcall/rpc/clock.h"
#include "farcall/rpc/transport.h"

namespace farcall {

// The defaults suit a data centre. All but the pools apply to each connection.
struct TcpOptions {
  // Memory for messages of all connections together; beyond it sending and receiving say
  // RESOURCE_EXHAUSTED. What a peer makes us receive cannot starve what we send, and large messages
  // cannot starve small ones: a quarter of each pool is for those (README.md, the memory plan).
  size_t send_pool_bytes = size_t{4} << 30;
  size_t receive_pool_bytes = size_t{4} << 30;

  TransportLimits limits;

  // How long a peer may take for its first 8 bytes. 0: for ever.
  Duration handshake_timeout = std::chrono::seconds(10);

  // TCP only. An idle peer is asked for a sign of life by the kernel after `keepalive_idle`, then
  // every `keepalive_interval`, and is dead after `keepalive_probes` without one. 0 idle: never.
  // Whole seconds.
  Duration keepalive_idle = std::chrono::seconds(30);
  Duration keepalive_interval = std::chrono::seconds(10);
  int keepalive_probes = 3;
  // TCP only. A peer that acknowledged nothing of what was sent for so long is dead
  // (TCP_USER_TIMEOUT). 0: the kernel's own patience, some 15 minutes. Whole milliseconds.
  Duration user_timeout = std::chrono::seconds(30);

  // TCP only. Bytes that the kernel takes beyond what is on the network already
  // (TCP_NOTSENT_LOWAT): what a small message waits behind when large payloads move. 0: the
  // system's setting.
  int unsent_bytes = 256 << 10;
  // The kernel's receive buffer (SO_RCVBUF), bytes: the other half of that. Across a long fat link
  // (bandwidth times round trip above this) large payloads want more, or 0: the kernel adapts it
  // itself, up to net.ipv4.tcp_rmem.
  int receive_buffer_bytes = 1 << 20;
  // The same for sending (SO_SNDBUF). 0: the kernel adapts it itself.
  int send_buffer_bytes = 0;
  // TCP only: a congestion control by name (TCP_CONGESTION), "reno". Empty: the system's.
  std::string congestion_control;

  // Connections that wait to be accepted.
  int backlog = 1024;
  // Access to the file of a Unix socket: who may write to it may connect.
  unsigned unix_mode = 0600;
};

// Thread-safe, as are the transport's Listen and its connections' pool. Connections keep what they
// need of the transport; it may go before them.
std::shared_ptr<Transport> MakeTcpTransport(TcpOptions options = {});

// INVALID_ARGUMENT, with the reason, for an endpoint that Connect of a TCP transport can never
// reach: another scheme, port 0, a path that is no socket's.
absl::Status CheckTcpEndpoint(const Endpoint& endpoint);

}  // namespace farcall

#endif  // FARCALL_TRANSPORTS_TCP_TCP_H_
