// The control socket of an established connection, shared by its queue pair and by whoever
// allocates memory for the peer.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_LINK_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_LINK_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "farcall/transports/rdma/fork_guard.h"
#include "farcall/transports/rdma/softnic/file_descriptor.h"
#include "farcall/transports/rdma/softnic/packet.h"

namespace farcall::softnic {

class Link {
 public:
  explicit Link(FileDescriptor socket) : socket_(std::move(socket)) {}

  int socket() const { return socket_.get(); }
  bool inherited() const { return guard_.inherited(); }

  // Any thread. False: not sent, because the socket is full or the peer is gone.
  bool Send(std::span<const std::byte> bytes, std::span<const int> descriptors = {}) {
    return !inherited() && SendPacket(socket_.get(), bytes, descriptors) == 0;
  }
  // A full socket is a peer that is awake.
  void RingDoorbell() {
    if (!inherited()) SendPacket(socket_.get(), PacketKind::kDoorbell);
  }
  // Whether notices wait for room in the socket: see DomainCore::CatchUp.
  bool behind() const { return behind_.load(std::memory_order_relaxed); }
  void set_behind(bool behind) { behind_.store(behind, std::memory_order_relaxed); }

 private:
  const rdma::ForkGuard guard_;
  const FileDescriptor socket_;
  std::atomic<bool> behind_{false};
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_LINK_H_
