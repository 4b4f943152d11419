// The control socket's packets: how a connection is made, and what follows it beside the rings.
//
// A Unix socket of type SEQPACKET a connection. Its packets carry file descriptors; one with
// nothing to say is the doorbell; its end is how the peer's death is seen. All of them are read
// without blocking, and what they say is checked by those who act on it.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_PACKET_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "farcall/transports/rdma/softnic/file_descriptor.h"
#include "farcall/transports/rdma/softnic/limits.h"

namespace farcall::softnic {

enum class PacketKind : uint32_t {
  kDoorbell = 1,  // look at the rings
  kConnect,       // ConnectPacket and two descriptors, from the active side
  kAccept,        // the same, the answer
  kReject,        // ConnectPacket, the other answer
  kReady,         // the active side has the answer
  kSlabs,         // SlabsPacket and as many descriptors: memory that may be offered
  kSlabGone,      // one entry of it
  kBye,           // a disconnect, not a death
};

inline constexpr uint32_t kProtocolVersion = 1;

struct ConnectPacket {
  PacketKind kind = PacketKind::kConnect;
  uint32_t version = kProtocolVersion;
  uint32_t slots = 0;        // of the ring in the first descriptor
  uint32_t arena_bytes = 0;  // behind it
  uint32_t keys = 0;         // entries of the table in the second
  uint32_t responder_resources = 0;
  uint32_t initiator_depth = 0;
  uint32_t private_bytes = 0;
  std::byte private_data[kMaxPrivateData] = {};
};
static_assert(sizeof(ConnectPacket) == 88);

struct SlabEntry {
  uint32_t key = 0;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
};
struct SlabsPacket {
  PacketKind kind = PacketKind::kSlabs;
  uint32_t count = 0;
  SlabEntry slabs[kSlabsPerPacket];

  static constexpr size_t Bytes(size_t count) { return 8 + count * sizeof(SlabEntry); }
};
static_assert(sizeof(SlabsPacket) == SlabsPacket::Bytes(kSlabsPerPacket));

inline constexpr size_t kMaxPacketBytes = sizeof(SlabsPacket);

struct Packet {
  alignas(8) std::byte bytes[kMaxPacketBytes];
  size_t size = 0;
  std::vector<FileDescriptor> descriptors;

  PacketKind kind() const;
  // Whether the packet has exactly this many bytes and descriptors.
  bool Is(size_t bytes, size_t descriptors) const;
};

// 0, or an errno; EAGAIN: the peer does not read. Any thread.
int SendPacket(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors = {});
int SendPacket(int socket, PacketKind kind);
template <typename T>
std::span<const std::byte> BytesOf(const T& packet) {
  return std::as_bytes(std::span(&packet, 1));
}

enum class Received { kPacket, kNothing, kEnd, kNoDescriptors };
// kEnd: the peer closed, died, or sent what is no packet. kNoDescriptors: there was no room for the
// descriptors that came, which are lost.
Received ReceivePacket(int socket, Packet& packet);

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_PACKET_H_
