#include "farcall/transports/rdma/softnic/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/softnic/runtime_folder.h"

namespace farcall::softnic {

using Kind = rdma::ConnectionEvent::Kind;

bool ValidConnectPacket(const Packet& packet, PacketKind kind, ConnectPacket& connect) {
  if (packet.size != sizeof connect || packet.kind() != kind) return false;
  std::memcpy(&connect, packet.bytes, sizeof connect);
  if (connect.version != kProtocolVersion || connect.private_bytes > kMaxPrivateData) return false;
  if (kind == PacketKind::kReject) return packet.descriptors.empty();
  return packet.descriptors.size() == 2 && connect.keys >= 1 && connect.keys <= kMaxKeys &&
         Geometry{connect.slots, connect.arena_bytes}.Valid();
}

rdma::ConnectionEvent EventOf(Kind kind, const ConnectPacket& connect) {
  rdma::ConnectionEvent event;
  event.kind = kind;
  event.private_data.assign(connect.private_data, connect.private_data + connect.private_bytes);
  event.responder_resources = std::min(connect.initiator_depth, kMaxReadDepth);
  event.initiator_depth = std::min(connect.responder_resources, kMaxReadDepth);
  return event;
}

SoftConnection::SoftConnection(std::shared_ptr<DeviceCore> device,
                               std::shared_ptr<ChannelCore> channel, std::string name,
                               std::string path)
    : device_(std::move(device)),
      channel_(std::move(channel)),
      name_(std::move(name)),
      path_(std::move(path)),
      state_(State::kResolved) {
  Say(Kind::kResolved, absl::OkStatus());
}

SoftConnection::SoftConnection(std::shared_ptr<DeviceCore> device,
                               std::shared_ptr<ChannelCore> channel, std::string name,
                               FileDescriptor socket, const ConnectPacket& request,
                               std::vector<FileDescriptor> descriptors)
    : device_(std::move(device)),
      channel_(std::move(channel)),
      name_(std::move(name)),
      state_(State::kRequested),
      link_(std::make_shared<Link>(std::move(socket))),
      request_(request),
      descriptors_(std::move(descriptors)) {}

SoftConnection::~SoftConnection() {
  if (state_ == State::kRequested) Reject({}).IgnoreError();
  Disconnect();
  if (pair_ != nullptr) pair_->Disown();
  if (link_ != nullptr) channel_->Unwatch(link_->socket());
  channel_->Forget(this);
}

absl::StatusOr<std::unique_ptr<rdma::QueuePair>> SoftConnection::CreateQueuePair(
    rdma::ProtectionDomain& domain, const rdma::QueuePairOptions& options) {
  if (pair_ != nullptr || (state_ != State::kResolved && state_ != State::kRequested)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name_, ": one queue pair, before the connection is made"));
  }
  absl::StatusOr<std::unique_ptr<SoftQueuePair>> pair =
      SoftQueuePair::Create(device_, static_cast<Domain&>(domain).core(), options, *this);
  if (!pair.ok()) return pair.status();
  pair_ = pair->get();
  return *std::move(pair);
}

// ---- the handshake ----

absl::Status SoftConnection::MayHandshake(State wanted,
                                          const rdma::ConnectionParameters& parameters) const {
  if (guard_.inherited() || state_ != wanted || pair_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(name_, ": not at this point of a connection, or without a queue pair"));
  }
  if (parameters.private_data.size() > kMaxPrivateData || parameters.rnr_retry > 7) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": more than ", kMaxPrivateData,
                     " bytes of private data, or rnr_retry above 7 (without end)"));
  }
  return absl::OkStatus();
}

ConnectPacket SoftConnection::Describe(PacketKind kind,
                                       const rdma::ConnectionParameters& parameters) {
  ConnectPacket packet;
  packet.kind = kind;
  packet.slots = pair_->geometry().slots;
  packet.arena_bytes = pair_->geometry().arena_bytes;
  packet.keys = pair_->domain()->keys().entries();
  packet.responder_resources = std::min(parameters.responder_resources, kMaxReadDepth);
  packet.initiator_depth = std::min(parameters.initiator_depth, kMaxReadDepth);
  packet.private_bytes = static_cast<uint32_t>(parameters.private_data.size());
  std::copy(parameters.private_data.begin(), parameters.private_data.end(), packet.private_data);
  rnr_retry_ = parameters.rnr_retry;
  return packet;
}

int SoftConnection::SendWithMemory(const ConnectPacket& packet) {
  const int descriptors[] = {pair_->segment().fd(), pair_->domain()->keys().shared().fd()};
  return SendPacket(link_->socket(), BytesOf(packet), descriptors);
}

absl::Status SoftConnection::Connect(const rdma::ConnectionParameters& parameters) {
  absl::Status allowed = MayHandshake(State::kResolved, parameters);
  if (!allowed.ok()) return allowed;
  state_ = State::kConnecting;
  absl::StatusOr<FileDescriptor> socket = ConnectTo(path_);
  if (!socket.ok()) {
    Unreachable(socket.status());
    return absl::OkStatus();
  }
  link_ = std::make_shared<Link>(*std::move(socket));
  if (const int error = SendWithMemory(Describe(PacketKind::kConnect, parameters)); error != 0) {
    Unreachable(absl::UnavailableError(absl::StrCat("connecting: ", std::strerror(error))));
    return absl::OkStatus();
  }
  channel_->Watch(link_->socket(), false, *this);
  return absl::OkStatus();
}

// The active side has, or has not, an answer.
void SoftConnection::Answered() {
  Packet packet;
  ConnectPacket answer;
  const Received received = ReceivePacket(link_->socket(), packet);
  if (received == Received::kNothing) return;
  if (received == Received::kPacket && ValidConnectPacket(packet, PacketKind::kReject, answer)) {
    channel_->Unwatch(link_->socket());
    state_ = State::kEnded;
    rdma::ConnectionEvent event = EventOf(Kind::kRejected, answer);
    event.status = absl::UnavailableError(absl::StrCat(name_, ": the peer refused"));
    return Say(std::move(event));
  }
  if (received == Received::kNoDescriptors) {
    return Unreachable(absl::UnavailableError(
        "no descriptor is free in this process for the peer's memory: raise its limit of open "
        "files (ulimit -n)"));
  }
  if (received == Received::kEnd || !ValidConnectPacket(packet, PacketKind::kAccept, answer)) {
    return Unreachable(absl::UnavailableError(
        received == Received::kEnd
            ? "the peer went before it answered"
            : "the peer's answer makes no sense; its program may be of another version"));
  }
  const absl::Status established = Establish(answer, std::move(packet.descriptors));
  if (!established.ok()) return Unreachable(established);
  const bool told = link_->Send(BytesOf(PacketKind::kReady));
  state_ = State::kEstablished;
  channel_->Watch(link_->socket(), true, *this);
  Say(EventOf(Kind::kEstablished, answer));
  if (!told) Disconnect();
}

absl::Status SoftConnection::Accept(const rdma::ConnectionParameters& parameters) {
  absl::Status allowed = MayHandshake(State::kRequested, parameters);
  if (!allowed.ok()) return allowed;
  state_ = State::kEnded;  // unless all goes well
  const ConnectPacket answer = Describe(PacketKind::kAccept, parameters);
  if (const int error = SendWithMemory(answer); error == EPIPE || error == ECONNRESET) {
    return absl::CancelledError(absl::StrCat(name_, ": the caller went before it was accepted"));
  } else if (error != 0) {
    return absl::UnavailableError(absl::StrCat(name_, ": accepting: ", std::strerror(error)));
  }
  absl::Status established = Establish(request_, std::move(descriptors_));
  if (!established.ok()) {
    link_.reset();  // the peer sees the end
    return established;
  }
  state_ = State::kAccepted;
  channel_->Watch(link_->socket(), false, *this);
  return absl::OkStatus();
}

absl::Status SoftConnection::Establish(const ConnectPacket& peer,
                                       std::vector<FileDescriptor> descriptors) {
  PeerSide side;
  side.geometry = {peer.slots, peer.arena_bytes};
  side.keys = peer.keys;
  absl::StatusOr<PeerMemory> segment = PeerMemory::Map(descriptors[0], side.geometry.bytes());
  if (!segment.ok()) return segment.status();
  absl::StatusOr<PeerMemory> keys =
      PeerMemory::Map(descriptors[1], size_t{peer.keys} * sizeof(RemoteKey));
  if (!keys.ok()) return keys.status();
  side.segment.emplace(*std::move(segment));
  side.key_table.emplace(*std::move(keys));
  pair_->Establish(link_, std::move(side), rnr_retry_);
  return absl::OkStatus();
}

absl::Status SoftConnection::Reject(std::span<const std::byte> private_data) {
  if (guard_.inherited() || state_ != State::kRequested) {
    return absl::FailedPreconditionError(absl::StrCat(name_, ": nothing to reject"));
  }
  if (private_data.size() > kMaxPrivateData) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": more than ", kMaxPrivateData, " bytes of private data"));
  }
  state_ = State::kEnded;
  ConnectPacket packet;
  packet.kind = PacketKind::kReject;
  packet.private_bytes = static_cast<uint32_t>(private_data.size());
  std::copy(private_data.begin(), private_data.end(), packet.private_data);
  link_->Send(BytesOf(packet));
  return absl::OkStatus();
}

absl::Status SoftConnection::MoveTo(rdma::EventChannel& channel) {
  if (state_ != State::kRequested) {
    return absl::FailedPreconditionError(
        absl::StrCat(name_, ": moves to another channel before Accept only"));
  }
  channel_ = static_cast<Channel&>(channel).core();
  return absl::OkStatus();
}

// ---- the end ----

void SoftConnection::Disconnect() {
  if (!alive() || guard_.inherited()) return;
  link_->Send(BytesOf(PacketKind::kBye));
  End(absl::UnavailableError("disconnected by this side"));
}

void SoftConnection::End(const absl::Status& status) {
  if (!alive()) return;
  state_ = State::kEnded;
  channel_->Unwatch(link_->socket());
  if (pair_ != nullptr) pair_->Fail();
  // Also when the queue pair keeps the socket: the peer sees the end now.
  ::shutdown(link_->socket(), SHUT_RDWR);
  Say(Kind::kDisconnected, status);
}

void SoftConnection::OnPeerGone(absl::Status status) { End(status); }

void SoftConnection::OnRemoved() {
  if (!alive()) return;
  Say(Kind::kDeviceRemoved, absl::UnavailableError("softnic: the device was removed"));
  Disconnect();
}

void SoftConnection::OnQueuePairGone() {
  pair_ = nullptr;
  Disconnect();
}

void SoftConnection::OnReady() {
  if (state_ != State::kAccepted) return;
  state_ = State::kEstablished;
  channel_->Watch(link_->socket(), true, *this);
  Say(EventOf(Kind::kEstablished, request_));
}

void SoftConnection::OnReadable() {
  if (state_ == State::kConnecting) return Answered();
  if (pair_ != nullptr && alive()) return pair_->ReadPackets();
  channel_->Unwatch(link_->socket());
}

void SoftConnection::Unreachable(const absl::Status& status) {
  if (link_ != nullptr) channel_->Unwatch(link_->socket());
  state_ = State::kEnded;
  Say(Kind::kUnreachable, status);
}

void SoftConnection::Say(Kind kind, const absl::Status& status) {
  rdma::ConnectionEvent event;
  event.kind = kind;
  if (!status.ok()) {
    event.status =
        absl::Status(status.code(), absl::StrCat(name_, ": ", std::string(status.message())));
  }
  Say(std::move(event));
}

void SoftConnection::Say(rdma::ConnectionEvent event) {
  event.id = this;
  channel_->Push(std::move(event));
}

}  // namespace farcall::softnic
