// The best path to a server ("auto://host:port"): TCP first, and beside it, as soon as it works,
// shared memory on the same host or RDMA between hosts. The door of this room.
//
// Calls go by TCP until a better path has been attached and probed, and again at once when it
// fails; TCP stays up beside it and tells when the peer is gone. Channel::info() says which path
// carries calls and why each better one does not. A server that listens here serves plain tcp://
// callers as well.

#ifndef FARCALL_TRANSPORTS_AUTO_AUTO_H_
#define FARCALL_TRANSPORTS_AUTO_AUTO_H_

#include <memory>
#include <string>

#include "farcall/rpc/transport.h"

namespace farcall {

struct AutoOptions {
  std::shared_ptr<Transport> tcp;   // for tcp:// endpoints; must be there
  std::shared_ptr<Transport> shm;   // for shm:// endpoints; nullptr: neither used nor offered
  std::shared_ptr<Transport> rdma;  // for rdma:// endpoints; likewise
  // Server: where it listens for RDMA and what callers are told, instead of the address of the
  // interface that they came in by: for several adapters, or address translation on the way.
  std::string rdma_host = {};
};

// Thread-safe as far as its members are. Connect and Listen take auto://host:port, which is
// tcp://host:port to them; their errors are TCP's. A member that cannot listen leaves the listener
// without it: the log and the callers are told why.
std::shared_ptr<Transport> MakeAutoTransport(AutoOptions options);

}  // namespace farcall

#endif  // FARCALL_TRANSPORTS_AUTO_AUTO_H_
