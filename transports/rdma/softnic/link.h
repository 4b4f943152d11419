// The control socket of an established connection, shared by its queue pair and by whoever
// allocates memory for the peer.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_LINK_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_LINK_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "farcall/transports/rdma/softnic/file_descriptor.h"
#include "farcall/transports/rdma/softnic/fork_guard.h"
#include "farcall/transports/rdma/softnic/packet.h"

namespace farcall::softnic {

class Link {
 public:
  explicit Link(FileDescriptor socket) : socket_(std::move(socket)) {}

  int socket() const { return socket_.get(); }
  bool inherited() const { return guard_.inherited(); }

  // Any thread. A packet that the peer has no room for breaks the link: an honest peer's device
  // reads its socket whenever it is polled.
  bool Send(std::span<const std::byte> bytes, std::span<const int> descriptors = {}) {
    if (inherited() || broken_.load(std::memory_order_relaxed)) return false;
    if (SendPacket(socket_.get(), bytes, descriptors) == 0) return true;
    broken_.store(true, std::memory_order_relaxed);
    return false;
  }
  // A full socket is a peer that is awake.
  void RingDoorbell() {
    if (!inherited()) SendPacket(socket_.get(), PacketKind::kDoorbell);
  }
  bool broken() const { return broken_.load(std::memory_order_relaxed); }

 private:
  const ForkGuard guard_;
  const FileDescriptor socket_;
  std::atomic<bool> broken_{false};
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_LINK_H_
