// The software NIC: RDMA's programming model in shared memory, between processes of one host and
// one user. The door of this room.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_SOFTNIC_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_SOFTNIC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/softnic/faults.h"

namespace farcall::softnic {

struct SoftnicOptions {
  // Where listeners have their sockets: a folder of this user's with mode 0700, made when it is
  // missing. Empty: $XDG_RUNTIME_DIR/farcall, else /run/farcall-<uid>, else /tmp/farcall-<uid>.
  std::string runtime_folder = {};
  // Of a queue pair, for messages above 240 bytes that were not taken yet; a message is at most
  // half of it. A power of two. Both sides map it: a connection's memory grows with twice of that.
  uint32_t arena_bytes = uint32_t{128} << 10;
  uint32_t keys = 2048;  // of a protection domain; at most 65536
  // Address space for what one peer offers.
  uint64_t max_mapped_bytes = uint64_t{64} << 30;

  // What some adapters lack, so that an engine is tried without it.
  bool windows = true;
  bool read_sink_needs_remote_write = false;
  uint32_t max_read_sges = 2;
  uint32_t max_inline = 240;  // at most that

  FaultPlan faults = {};
};

// Any number in a process; devices of one process can connect to each other. Addresses are names:
// 1 to 64 letters, digits, '-', '_' and '.', not '.' first. INVALID_ARGUMENT names the option that
// is out of bounds.
absl::StatusOr<std::shared_ptr<rdma::Device>> MakeSoftnicDevice(SoftnicOptions options = {});

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_SOFTNIC_H_
