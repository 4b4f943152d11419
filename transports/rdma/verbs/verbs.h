// RDMA adapters: InfiniBand, RoCE and iWARP, by libibverbs and librdmacm. The door of this room.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_VERBS_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_VERBS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "farcall/transports/rdma/device.h"

namespace farcall::verbs {

// What the route to a peer does not say, or says wrongly.
struct VerbsOptions {
  // The adapter's name, as `rdma link` prints it. Empty: the one that the route to the peer leads
  // through. With a name, connections by other adapters are refused, in words.
  std::string adapter = {};
  // This side's address when it connects: of the interface, and so of the port and the GID, to
  // leave by. Empty: as the route says.
  std::string source_address = {};
  // How long a packet may go without an acknowledgement before it is sent again: 4.096 us times 2
  // to the power of this (16: 0.27 s; adapters take up to four times that). With `retries` it says
  // how soon a peer that vanished is noticed: about 2 s. iWARP leaves both to its TCP.
  uint8_t ack_timeout = 16;
  uint8_t retries = 6;  // at most 7, which some take for 'without end' (Soft-RoCE)
  // The traffic class (DSCP and ECN: the TOS byte) of the connections that are made from here.
  std::optional<uint8_t> traffic_class = std::nullopt;
};

// Addresses are "host:port", "[v6]:port"; to listen, port 0 asks for a free one. UNAVAILABLE says
// why there is none (no adapter, no active port, no permission), and the remedy.
//
// Several in a process share what librdmacm has open. A child of fork must not touch what its
// parent made: it is refused, or does nothing, and the parent's connections go on.
absl::StatusOr<std::shared_ptr<rdma::Device>> MakeVerbsDevice(VerbsOptions options = {});

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_VERBS_H_
