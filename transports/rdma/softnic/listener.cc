#include "farcall/transports/rdma/softnic/listener.h"

#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/softnic/connection.h"

namespace farcall::softnic {

SoftListener::SoftListener(std::shared_ptr<DeviceCore> device, std::shared_ptr<ChannelCore> channel,
                           std::string name, ListeningSocket socket)
    : device_(std::move(device)),
      channel_(std::move(channel)),
      name_(std::move(name)),
      socket_(std::make_unique<ListeningSocket>(std::move(socket))) {
  channel_->Watch(socket_->get(), false, *this);
}

SoftListener::~SoftListener() {
  channel_->Unwatch(socket_->get());
  for (Pending& pending : pending_) channel_->Unwatch(pending.socket.get());
  channel_->Forget(this);
}

void SoftListener::OnReadable() {
  FileDescriptor accepted(
      ::accept4(socket_->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!accepted) return;
  pid_t pid = 0;
  if (!CheckPeerUser(accepted.get(), &pid).ok()) return;
  const auto now = std::chrono::steady_clock::now();
  while (!pending_.empty() && (pending_.size() >= kMaxPendingHandshakes ||
                               now - pending_.front().since > kHandshakeTime)) {
    Drop(pending_.front());
  }
  pending_.emplace_back(*this, std::move(accepted),
                        absl::StrCat("shm://", name_, " process ", pid));
  Pending& pending = pending_.back();
  pending.place = std::prev(pending_.end());
  channel_->Watch(pending.socket.get(), false, pending);
}

void SoftListener::Requested(Pending& pending) {
  Packet packet;
  ConnectPacket request;
  const Received received = ReceivePacket(pending.socket.get(), packet);
  if (received == Received::kNothing) return;
  if (received == Received::kPacket && ValidConnectPacket(packet, PacketKind::kConnect, request)) {
    channel_->Unwatch(pending.socket.get());
    rdma::ConnectionEvent event = EventOf(rdma::ConnectionEvent::Kind::kConnectRequest, request);
    event.listener = this;
    event.request =
        std::make_unique<SoftConnection>(device_, channel_, pending.peer, std::move(pending.socket),
                                         request, std::move(packet.descriptors));
    channel_->Push(std::move(event));
  }
  Drop(pending);
}

void SoftListener::Drop(Pending& pending) {
  if (pending.socket) channel_->Unwatch(pending.socket.get());
  pending_.erase(pending.place);
}

}  // namespace farcall::softnic
