// Dial and Listen: addresses in, channels and listening servers out.
//
//   tcp://host:port      TCP, IPv4 or IPv6 (in brackets); to listen everywhere 0.0.0.0 or [::]
//   unix:///path         a Unix stream socket
//   rdma://host:port     an RDMA adapter and nothing else: fails, in words, where there is none
//   shm://name           shared memory between processes of one host and user (the software NIC)
//   loopback://name      in this process, no wire
//   auto://host:port     the best path there is to host: TCP first, and beside it shared memory
//                        or RDMA once they work; Channel::info() says which, and why not a better
//
// The only library file that sees every transport. A program that wants one of them only can pass
// it to Channel and Server::Listen itself.

#ifndef FARCALL_TRANSPORTS_DIAL_H_
#define FARCALL_TRANSPORTS_DIAL_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "farcall/rpc/channel.h"
#include "farcall/rpc/endpoint.h"
#include "farcall/rpc/server.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/auto/auto.h"
#include "farcall/transports/loopback/loopback.h"
#include "farcall/transports/rdma/shm.h"
#include "farcall/transports/rdma/verbs_transport.h"
#include "farcall/transports/tcp/tcp.h"

namespace farcall {

// What auto:// uses beside TCP, and offers.
struct AutoPathOptions {
  bool shm = true;
  bool rdma = true;
  std::string rdma_host = {};  // AutoOptions::rdma_host
};

// Options of the transports, each used where its scheme is, or auto.
struct TransportOptions {
  TcpOptions tcp = {};  // tcp, unix
  LoopbackOptions loopback = {};
  ShmOptions shm = {};
  VerbsTransportOptions rdma = {};
  AutoPathOptions auto_paths = {};
};

// The transport that serves the endpoint's scheme. Without options it is one of the process, with
// pools that are shared; with options it is a new one. INVALID_ARGUMENT lists the schemes that
// there are. Thread-safe.
absl::StatusOr<std::shared_ptr<Transport>> TransportFor(const Endpoint& endpoint);
absl::StatusOr<std::shared_ptr<Transport>> TransportFor(const Endpoint& endpoint,
                                                        const TransportOptions& options);

// A channel to `address`. Returns at once: the connection is made in the background, and calls say
// when it cannot be. INVALID_ARGUMENT says what is wrong with an address that can never be reached;
// RESOURCE_EXHAUSTED, that there is no descriptor or thread left for the channel's loop;
// UNAVAILABLE or PERMISSION_DENIED, what rdma:// lacks here: an adapter, an active port, the right
// to use it.
absl::StatusOr<Channel> Dial(std::string_view address, ChannelOptions options = {});
absl::StatusOr<Channel> Dial(std::string_view address, ChannelOptions options,
                             const TransportOptions& transport_options);

// Lets `server` listen at `address`; port 0 asks for a free one. Returns the address that was
// bound. Errors as Server::Listen, and INVALID_ARGUMENT as Dial.
absl::StatusOr<Endpoint> Listen(Server& server, std::string_view address);
absl::StatusOr<Endpoint> Listen(Server& server, std::string_view address,
                                const TransportOptions& transport_options);

}  // namespace farcall

#endif  // FARCALL_TRANSPORTS_DIAL_H_
