// Loopback: calls inside one process, over the same boundary as any wire.
//
// For tests, simulations and programs that are their own server. Messages move by handing their
// buffers over: nothing is copied unless the receiver asks for it. Every step is a task on the loop
// of the end that it concerns, so that loops which are stepped by hand, with a manual clock, always
// do the same in the same order; between loops of different threads it is thread-safe. Payloads
// above kLargePayload move in steps of kChunkBytes, one a turn, so that small messages overtake
// them and a transfer can be withdrawn or abandoned half-way, as on a real wire.

#ifndef FARCALL_TRANSPORTS_LOOPBACK_LOOPBACK_H_
#define FARCALL_TRANSPORTS_LOOPBACK_LOOPBACK_H_

#include <memory>

#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/transport.h"

namespace farcall {

// A set of loopback://names. Two networks do not see each other.
class LoopbackNetwork;
std::shared_ptr<LoopbackNetwork> MakeLoopbackNetwork();

struct LoopbackOptions {
  std::shared_ptr<LoopbackNetwork> network = nullptr;  // nullptr: the one of the process
  std::shared_ptr<BufferPool> pool = nullptr;          // nullptr: a pool of this transport's own
  TransportLimits limits{};
};

// Serves loopback://name. Thread-safe; listeners and connections may outlive it.
std::shared_ptr<Transport> MakeLoopbackTransport(LoopbackOptions options = {});

}  // namespace farcall

#endif  // FARCALL_TRANSPORTS_LOOPBACK_LOOPBACK_H_
