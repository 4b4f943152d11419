// One end of a connection of the software NIC: the handshake, and the end.
//
//   RESOLVED  --Connect-->  CONNECTING --kAccept--> ESTABLISHED     (active; kReject: ENDED)
//   REQUESTED --Accept-->   ACCEPTED   --kReady-->  ESTABLISHED     (passive)
//   ACCEPTED, ESTABLISHED --Disconnect, the peer's end--> ENDED, with one kDisconnected

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_CONNECTION_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_CONNECTION_H_

#include <memory>
#include <string>
#include <vector>

#include "farcall/transports/rdma/softnic/device_core.h"
#include "farcall/transports/rdma/softnic/event_channel.h"
#include "farcall/transports/rdma/softnic/link.h"
#include "farcall/transports/rdma/softnic/packet.h"
#include "farcall/transports/rdma/softnic/queue_pair.h"

namespace farcall::softnic {

// A connection packet that asks for something we can give. Its descriptors are not looked at.
bool ValidConnectPacket(const Packet& packet, PacketKind kind, ConnectPacket& connect);

// What a request or an answer means for this side.
rdma::ConnectionEvent EventOf(rdma::ConnectionEvent::Kind kind, const ConnectPacket& connect);

class SoftConnection : public rdma::ConnectionId, public QueuePairOwner, public Watched {
 public:
  // Active: RESOLVED. `path` is the listener's socket.
  SoftConnection(std::shared_ptr<DeviceCore> device, std::shared_ptr<ChannelCore> channel,
                 std::string name, std::string path);
  // Passive: REQUESTED, with what the peer sent.
  SoftConnection(std::shared_ptr<DeviceCore> device, std::shared_ptr<ChannelCore> channel,
                 std::string name, FileDescriptor socket, const ConnectPacket& request,
                 std::vector<FileDescriptor> descriptors);
  ~SoftConnection() override;

  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> CreateQueuePair(
      rdma::ProtectionDomain& domain, const rdma::QueuePairOptions& options) override;
  absl::Status Connect(const rdma::ConnectionParameters& parameters) override;
  absl::Status Accept(const rdma::ConnectionParameters& parameters) override;
  absl::Status Reject(std::span<const std::byte> private_data) override;
  void Disconnect() override;
  absl::Status MoveTo(rdma::EventChannel& channel) override;
  std::string peer() const override { return name_; }

  void OnReady() override;
  void OnPeerGone(absl::Status status) override;
  void OnRemoved() override;
  void OnQueuePairGone() override;
  void OnReadable() override;

 private:
  enum class State { kResolved, kConnecting, kRequested, kAccepted, kEstablished, kEnded };

  absl::Status MayHandshake(State wanted, const rdma::ConnectionParameters& parameters) const;
  ConnectPacket Describe(PacketKind kind, const rdma::ConnectionParameters& parameters);
  int SendWithMemory(const ConnectPacket& packet);
  void Answered();
  // Maps the peer's segment and keys, and sets the queue pair going.
  absl::Status Establish(const ConnectPacket& peer, std::vector<FileDescriptor> descriptors);
  void Say(rdma::ConnectionEvent event);
  void Say(rdma::ConnectionEvent::Kind kind, const absl::Status& status);
  void Unreachable(const absl::Status& status);
  void End(const absl::Status& status);
  bool alive() const { return state_ == State::kAccepted || state_ == State::kEstablished; }

  const rdma::ForkGuard guard_;
  const std::shared_ptr<DeviceCore> device_;
  std::shared_ptr<ChannelCore> channel_;
  const std::string name_, path_;
  State state_;
  std::shared_ptr<Link> link_;
  SoftQueuePair* pair_ = nullptr;
  uint32_t rnr_retry_ = 0;
  ConnectPacket request_;                    // REQUESTED
  std::vector<FileDescriptor> descriptors_;  // REQUESTED
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_CONNECTION_H_
