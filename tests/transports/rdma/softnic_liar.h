// A peer that is no software NIC, for tests: it shakes hands and then writes what it likes into
// everything that is its own to write.

#ifndef FARCALL_TESTS_TRANSPORTS_RDMA_SOFTNIC_LIAR_H_
#define FARCALL_TESTS_TRANSPORTS_RDMA_SOFTNIC_LIAR_H_

#include <memory>
#include <string>
#include <utility>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/softnic_testing.h"
#include "farcall/transports/rdma/softnic/key_table.h"
#include "farcall/transports/rdma/softnic/packet.h"
#include "farcall/transports/rdma/softnic/runtime_folder.h"
#include "farcall/transports/rdma/softnic/segment.h"
#include "farcall/transports/rdma/softnic/shared_memory.h"

namespace farcall::softnic::testing {

inline constexpr Geometry kGeometry{16, kMinArenaBytes};
inline constexpr uint32_t kKeys = 16;

inline OwnMemory Memory(size_t bytes) {
  absl::StatusOr<OwnMemory> made = OwnMemory::Create("hostile", bytes);
  REQUIRE(made.ok());
  return *std::move(made);
}

// What the test is at the other end: a socket, a segment and a key table.
struct Liar {
  explicit Liar(const std::string& folder)
      : segment(Memory(kGeometry.bytes())), keys(Memory(kKeys * sizeof(RemoteKey))) {
    absl::StatusOr<FileDescriptor> connected = ConnectTo(*SocketPath(folder, "victim"));
    REQUIRE(connected.ok());
    socket = *std::move(connected);
  }
  static ConnectPacket Request() {
    ConnectPacket packet;
    packet.slots = kGeometry.slots;
    packet.arena_bytes = kGeometry.arena_bytes;
    packet.keys = kKeys;
    return packet;
  }
  void Connect(const ConnectPacket& packet) const {
    const int descriptors[] = {segment.fd(), keys.fd()};
    REQUIRE(SendPacket(socket.get(), BytesOf(packet), descriptors) == 0);
  }
  OwnSegment view() const { return {segment.base(), kGeometry}; }
  RemoteKey& key(size_t i) const { return reinterpret_cast<RemoteKey*>(keys.base())[i]; }
  // Shows a message of so many bytes, whatever is true.
  void Show(uint32_t number, uint32_t bytes, uint32_t taken = 0) const {
    Slot& slot = view().slot(number);
    slot.bytes.store(bytes);
    slot.taken.store(taken);
    slot.sequence.store(number + 1);
  }
  void Offer(size_t index, uint32_t slab, uint64_t address, uint64_t offset, uint64_t bytes) const {
    RemoteKey& entry = key(index);
    entry.slab.store(slab);
    entry.address.store(address);
    entry.offset.store(offset);
    entry.bytes.store(bytes);
    entry.key.store(static_cast<uint32_t>(index << 16 | 1));
  }
  void Announce(uint32_t name, uint64_t bytes, int fd) const {
    SlabsPacket packet;
    packet.count = 1;
    packet.slabs[0] = {.key = name, .bytes = bytes};
    view().header().notices.fetch_add(1);
    REQUIRE(SendPacket(socket.get(), BytesOf(packet).first(SlabsPacket::Bytes(1)),
                       std::span(&fd, 1)) == 0);
  }

  FileDescriptor socket;
  const OwnMemory segment, keys;
};

// The victim listens, and beside the liar has an honest connection, which must not suffer.
struct Stage {
  Stage()
      : device(Make({.runtime_folder = folder.path(), .max_mapped_bytes = uint64_t{1} << 30})),
        honest(*device, "honest"),
        victim(*device, {.send_depth = 16}),
        liar((listener = *device->Listen(*victim.channel, "victim"), folder.path())) {}

  void Connect() {
    liar.Connect(Liar::Request());
    rdma::ConnectionEvent request = victim.NextEvent(victim);
    REQUIRE(request.kind == rdma::ConnectionEvent::Kind::kConnectRequest);
    victim.MakePair(std::move(request.request));
    for (uint64_t i = 0; i < 16; ++i) victim.Receive(i, 0, 4096);
    REQUIRE(victim.id->Accept({}).ok());
    REQUIRE(SendPacket(liar.socket.get(), PacketKind::kReady) == 0);
    REQUIRE(victim.NextEvent(victim).kind == rdma::ConnectionEvent::Kind::kEstablished);
  }
  void CheckThrownOut() {
    CHECK(victim.NextEvent(victim).kind == rdma::ConnectionEvent::Kind::kDisconnected);
    CHECK(victim.pair->state() == rdma::QueuePairState::kError);
    CheckHonest();
  }
  void CheckHonest() {
    honest.passive.Receive(1, 0, 64);
    honest.active.Send(1, 0, 64);
    CHECK(honest.passive.NextCompletion(honest.active).status == rdma::CompletionStatus::kSuccess);
    CHECK(honest.active.NextCompletion(honest.passive).status == rdma::CompletionStatus::kSuccess);
  }
  rdma::CompletionStatus StatusOfRead(uint64_t address, uint32_t rkey, uint32_t bytes) {
    victim.Read(99, 8192, bytes, address, rkey);
    rdma::Completion completion;
    do {
      completion = victim.NextCompletion(victim);
    } while (completion.wr_id != 99);
    return completion.status;
  }

  const Folder folder;
  const std::shared_ptr<rdma::Device> device;
  rdma::testing::Pair honest;
  rdma::testing::End victim;
  std::unique_ptr<rdma::AddressListener> listener;
  Liar liar;
};

}  // namespace farcall::softnic::testing

#endif  // FARCALL_TESTS_TRANSPORTS_RDMA_SOFTNIC_LIAR_H_
