#include "farcall/transports/rdma/softnic/packet.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace farcall::softnic {

PacketKind Packet::kind() const {
  PacketKind kind{};
  if (size >= sizeof kind) std::memcpy(&kind, bytes, sizeof kind);
  return kind;
}

bool Packet::Is(size_t wanted_bytes, size_t wanted_descriptors) const {
  return size == wanted_bytes && descriptors.size() == wanted_descriptors;
}

int SendPacket(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kSlabsPerPacket * sizeof(int))] = {};
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  for (;;) {
    if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

int SendPacket(int socket, PacketKind kind) { return SendPacket(socket, BytesOf(kind)); }

Received ReceivePacket(int socket, Packet& packet) {
  packet.descriptors.clear();
  iovec part{packet.bytes, sizeof packet.bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kSlabsPerPacket * sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t received = 0;
  do {
    received = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // The peer closed its end with packets of ours unread, which is told once and before its last
    // words: they are still there.
  } while (received < 0 && (errno == EINTR || errno == ECONNRESET));
  if (received < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? Received::kNothing : Received::kEnd;
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      packet.descriptors.emplace_back(fd);
    }
  }
  packet.size = static_cast<size_t>(received);
  if (received == 0 || (message.msg_flags & MSG_TRUNC) != 0) return Received::kEnd;
  if ((message.msg_flags & MSG_CTRUNC) != 0) return Received::kNoDescriptors;
  return Received::kPacket;
}

}  // namespace farcall::softnic
