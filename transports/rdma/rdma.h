// The door of this room: messages over RDMA devices, real or in software (device.h). shm.h makes
// such a transport over the software NIC.

#ifndef FARCALL_TRANSPORTS_RDMA_RDMA_H_
#define FARCALL_TRANSPORTS_RDMA_RDMA_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/device.h"

namespace farcall {

// What a peer may read of this process, at most. All but kShared: of memory that holds nothing but
// what its own connection sends. A device without memory windows has no kWindow.
//
// The user's own memory (rpc/user_memory.h) on a device that lets peers read it: with windows the
// slices that are offered; without, all of each handle that something was offered of, as long as
// handle and connection live. kShared: to any peer of the transport.
enum class RdmaIsolation : uint8_t {
  kStrongest,  // that the device has
  kWindow,     // the bytes of a payload that is offered, while it is offered
  kDomain,     // send buffers of its own connection
  // One protection domain and one pair of pools for all connections of the transport: less memory,
  // fewer descriptors and keys, for clusters that trust each other. An honest peer sees no
  // difference. One that does not keep to the protocol may read what others are sent: with windows
  // that the device binds to one queue pair nothing of it, as kWindow; with softnic's windows what
  // is offered to anybody, while it is offered, and, if it maps the memory by its own means, all
  // send buffers; without windows all send buffers, at any time. What arrives here it cannot read,
  // and nothing can it write, unless the device wants the sinks of READs writable by peers (iWARP):
  // then the receive pool. connection_pool_bytes does not apply, and the keys that a device has for
  // one domain are for all connections (SoftnicOptions::keys).
  kShared,
};

// The defaults suit services of one machine or rack. All but the pools apply to each connection.
struct RdmaOptions {
  // Receive buffers that are posted, 4 to 32768, each of eager_bytes and an envelope. The peer can
  // have so many messages on their way. They take depth x size x 1.25 bytes.
  uint32_t receive_depth = 80;
  // A message whose payload is no larger is sent into a posted receive of the peer, if that is
  // large enough; of a larger one only the head, and the peer reads the payload by itself. At most
  // 1 MiB less an envelope; a multiple of 64.
  uint32_t eager_bytes = 8 << 10;
  // The same bound for what this side sends: lower, to have more READs. Not above eager_bytes.
  std::optional<uint32_t> threshold = std::nullopt;
  // A READ asks for so much at a time.
  uint32_t chunk_bytes = 256 << 10;
  // READs on their way at once, each direction; less when the device or the peer has less.
  uint32_t read_depth = 16;

  // Memory for payloads of all connections together; beyond it sending and receiving say
  // RESOURCE_EXHAUSTED. What a peer makes us receive cannot starve what we send, and large messages
  // cannot starve small ones.
  size_t send_pool_bytes = size_t{4} << 30;
  size_t receive_pool_bytes = size_t{4} << 30;
  // What one connection may have of each.
  size_t connection_pool_bytes = size_t{4} << 30;

  TransportLimits limits;
  RdmaIsolation isolation = RdmaIsolation::kStrongest;

  // How long the address may take to resolve, and the peer to answer.
  Duration resolve_timeout = std::chrono::seconds(2);
  Duration connect_timeout = std::chrono::seconds(3);
};

// Makes the device when it is first needed. Any thread; one at a time.
using RdmaDeviceFactory = std::function<absl::StatusOr<std::shared_ptr<rdma::Device>>()>;

// A transport for endpoints of `scheme`. Thread-safe, as are the transport's Listen and its
// connections' pool. Connections keep what they need of the transport; it may go before them.
// Options out of bounds are said by Connect and Listen: INVALID_ARGUMENT.
std::shared_ptr<Transport> MakeRdmaTransport(std::string scheme, RdmaDeviceFactory device,
                                             const RdmaOptions& options = {});

// What an RDMA connection did, beside ConnectionCounters.
struct RdmaCounters {
  uint64_t sends = 0;                // SENDs posted, of every kind
  uint64_t inline_sends = 0;         // of them
  uint64_t reads = 0;                // READs posted
  uint64_t doorbells = 0;            // lists of work requests posted
  uint64_t signaled = 0;             // work requests that asked for a completion
  uint64_t eager_messages = 0;       // sent
  uint64_t rendezvous_messages = 0;  // offered
  uint64_t credit_messages = 0;      // SENDs of nothing but credits
  uint64_t credit_stalls = 0;        // ends of turns with messages that waited for credits, …
  uint64_t slot_stalls = 0;          // … for room in the send queue, or for a window
  uint64_t copies = 0;               // payloads, or parts of them, that were copied by the CPU
  uint64_t registrations = 0;        // of memory with the device; kShared: by all connections
};
// Of a connection of this transport; nothing for others. Any thread, while the connection is not
// being destroyed.
std::optional<RdmaCounters> RdmaCountersOf(const Connection& connection);

}  // namespace farcall

#endif  // FARCALL_TRANSPORTS_RDMA_RDMA_H_
