#include "farcall/transports/rdma/verbs/connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/verbs/errors.h"
#include "farcall/transports/rdma/verbs/limits.h"

namespace farcall::verbs {
namespace {

// 255 means 'as many as the adapter has' to the connection manager.
constexpr uint32_t kMaxDepth = 254;

void TakePrivateData(const rdma_cm_event& from, rdma::ConnectionEvent& to) {
  const auto* const bytes = static_cast<const std::byte*>(from.param.conn.private_data);
  if (bytes != nullptr) to.private_data.assign(bytes, bytes + from.param.conn.private_data_len);
}

}  // namespace

VerbsConnection::VerbsConnection(std::shared_ptr<Family> family,
                                 std::shared_ptr<ChannelCore> channel, std::string peer)
    : family_(std::move(family)),
      channel_(std::move(channel)),
      peer_(std::move(peer)),
      state_(State::kResolving) {}

VerbsConnection::VerbsConnection(std::shared_ptr<Family> family, std::shared_ptr<Adapter> adapter,
                                 std::shared_ptr<ChannelCore> channel, const rdma_cm_event& request)
    : family_(std::move(family)),
      channel_(std::move(channel)),
      peer_(absl::StrCat("rdma://", AddressText(*rdma_get_peer_addr(request.id)))),
      state_(State::kRequested),
      adapter_(std::move(adapter)),
      id_(std::make_shared<CmId>(request.id, channel_)),
      responder_resources_(request.param.conn.responder_resources),
      initiator_depth_(request.param.conn.initiator_depth) {
  request.id->context = static_cast<CmTarget*>(this);
}

VerbsConnection::~VerbsConnection() {
  if (id_ != nullptr && !id_->inherited()) {
    if (state_ == State::kRequested) rdma_reject(id_->get(), nullptr, 0);
    Disconnect();
    id_->get()->context = nullptr;
  }
  if (pair_ != nullptr) pair_->Disown();
  id_.reset();  // waits for whoever handles an event of it
  channel_->Forget(this);
}

std::shared_ptr<rdma::Device> VerbsConnection::device() const {
  return adapter_ != nullptr ? family_->DeviceOf(adapter_) : nullptr;
}

// ---- resolving ----

void VerbsConnection::Resolve(const HostAndPort& address) {
  absl::StatusOr<SocketAddresses> numeric = NumericAddress(address);
  if (numeric.status().code() != absl::StatusCode::kNotFound) {
    return TryAddresses(std::move(numeric));
  }
  const std::weak_ptr<char> wanted = looked_for_;
  absl::Status started = StartLookUp(
      address, [this, wanted, channel = channel_](absl::StatusOr<SocketAddresses> found) {
        channel->Run([this, wanted, found = std::move(found)] {
          if (!wanted.expired()) TryAddresses(found);
        });
      });
  if (!started.ok()) Unreachable(started);
}

void VerbsConnection::TryAddresses(absl::StatusOr<SocketAddresses> addresses) {
  if (!addresses.ok()) return Unreachable(addresses.status());
  addresses_ = *std::move(addresses);
  std::reverse(addresses_.begin(), addresses_.end());
  NextOrUnreachable(absl::UnavailableError("the host has no address"));
}

// `why` the last one did not do.
void VerbsConnection::NextOrUnreachable(const absl::Status& why) {
  absl::Status last = why;
  while (!addresses_.empty()) {
    last = TryNext();
    if (last.ok()) return;
  }
  Unreachable(last);
}

absl::Status VerbsConnection::TryNext() {
  sockaddr_storage to = addresses_.back();
  addresses_.pop_back();
  rdma_cm_id* made = nullptr;
  if (rdma_create_id(channel_->get(), &made, static_cast<CmTarget*>(this), RDMA_PS_TCP) != 0) {
    return SystemError("no identifier of the connection manager", errno);
  }
  if (id_ != nullptr) {
    id_->get()->context = nullptr;
    spent_.push_back(std::move(id_));
  }
  id_ = std::make_shared<CmId>(made, channel_);
  const VerbsOptions& options = family_->options();
  if (options.traffic_class.has_value()) {
    uint8_t traffic_class = *options.traffic_class;
    rdma_set_option(made, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class, sizeof traffic_class);
  }
  sockaddr_storage from{};
  sockaddr* source = nullptr;
  if (!options.source_address.empty()) {
    absl::StatusOr<SocketAddresses> address = NumericAddress({options.source_address, "0"});
    if (!address.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "VerbsOptions::source_address '", options.source_address, "' is not a numeric address"));
    }
    from = address->front();
    source = reinterpret_cast<sockaddr*>(&from);
  }
  if (rdma_resolve_addr(made, source, reinterpret_cast<sockaddr*>(&to), kResolveStepMs) != 0) {
    return SystemError("the address does not resolve", errno);
  }
  return absl::OkStatus();
}

void VerbsConnection::OnAddressResolved() {
  absl::StatusOr<std::shared_ptr<Adapter>> adapter = family_->AdapterOf(id_->get()->verbs);
  if (!adapter.ok()) return NextOrUnreachable(adapter.status());
  adapter_ = *std::move(adapter);
  if (rdma_resolve_route(id_->get(), kResolveStepMs) != 0) {
    NextOrUnreachable(SystemError("there is no route for RDMA", errno));
  }
}

// ---- the handshake ----

absl::StatusOr<std::unique_ptr<rdma::QueuePair>> VerbsConnection::CreateQueuePair(
    rdma::ProtectionDomain& domain, const rdma::QueuePairOptions& options) {
  if (pair_ != nullptr || (state_ != State::kResolved && state_ != State::kRequested)) {
    return Named(absl::FailedPreconditionError("one queue pair, before the connection is made"));
  }
  const std::shared_ptr<DomainCore>& core = static_cast<Domain&>(domain).core();
  if (&core->adapter() != adapter_.get() || core->inherited()) {
    return Named(absl::FailedPreconditionError(absl::StrCat(
        "the connection goes through ", adapter_->name(), ", the protection domain is of ",
        core->inherited() ? "the parent process" : core->adapter().name())));
  }
  absl::StatusOr<std::unique_ptr<VerbsQueuePair>> pair =
      VerbsQueuePair::Create(id_, core, options, *this);
  if (!pair.ok()) return Named(pair.status());
  pair_ = pair->get();
  return *std::move(pair);
}

absl::Status VerbsConnection::MayHandshake(State wanted,
                                           const rdma::ConnectionParameters& parameters) const {
  if (state_ != wanted || pair_ == nullptr || id_->inherited()) {
    return Named(absl::FailedPreconditionError(
        "not at this point of a connection, or without a queue pair"));
  }
  if (parameters.private_data.size() > kMaxPrivateData || parameters.rnr_retry > 7) {
    return Named(absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxPrivateData,
                     " bytes of private data, or rnr_retry above 7 (without end)")));
  }
  return absl::OkStatus();
}

rdma_conn_param VerbsConnection::ParametersOf(const rdma::ConnectionParameters& parameters) const {
  const rdma::Capabilities& can = adapter_->capabilities();
  rdma_conn_param to{};
  to.private_data = parameters.private_data.data();
  to.private_data_len = static_cast<uint8_t>(parameters.private_data.size());
  to.responder_resources = static_cast<uint8_t>(
      std::min({parameters.responder_resources, can.max_responder_resources, kMaxDepth}));
  to.initiator_depth = static_cast<uint8_t>(
      std::min({parameters.initiator_depth, can.max_initiator_depth, kMaxDepth}));
  to.retry_count = std::min<uint8_t>(family_->options().retries, 7);
  to.rnr_retry_count = parameters.rnr_retry;
  return to;
}

void VerbsConnection::SetAckTimeout() const {
  // Kernels before 5.2 do not know it, iWARP has no use for it: theirs is as good as they have.
  uint8_t timeout = family_->options().ack_timeout;
  rdma_set_option(id_->get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout);
}

absl::Status VerbsConnection::Connect(const rdma::ConnectionParameters& parameters) {
  absl::Status allowed = MayHandshake(State::kResolved, parameters);
  if (!allowed.ok()) return allowed;
  state_ = State::kConnecting;
  SetAckTimeout();
  rdma_conn_param wanted = ParametersOf(parameters);
  if (rdma_connect(id_->get(), &wanted) != 0) {
    // iWARP on a software adapter asks its TCP at once.
    Unreachable(SystemError("connecting", errno));
  }
  return absl::OkStatus();
}

absl::Status VerbsConnection::Accept(const rdma::ConnectionParameters& parameters) {
  absl::Status allowed = MayHandshake(State::kRequested, parameters);
  if (!allowed.ok()) return allowed;
  SetAckTimeout();
  rdma_conn_param wanted = ParametersOf(parameters);
  if (rdma_accept(id_->get(), &wanted) != 0) {
    state_ = State::kEnded;
    return Named(SystemError("accepting (has the peer gone?)", errno));
  }
  state_ = State::kAccepted;
  pair_->OnConnected();
  return absl::OkStatus();
}

absl::Status VerbsConnection::Reject(std::span<const std::byte> private_data) {
  if (state_ != State::kRequested || id_->inherited()) {
    return Named(absl::FailedPreconditionError("nothing to reject"));
  }
  if (private_data.size() > kMaxPrivateData) {
    return Named(absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxPrivateData, " bytes of private data")));
  }
  state_ = State::kEnded;
  if (rdma_reject(id_->get(), private_data.data(), static_cast<uint8_t>(private_data.size())) !=
      0) {
    return Named(SystemError("rejecting", errno));
  }
  return absl::OkStatus();
}

absl::Status VerbsConnection::MoveTo(rdma::EventChannel& channel) {
  if ((state_ != State::kRequested && state_ != State::kResolved) || id_->inherited()) {
    return Named(absl::FailedPreconditionError(
        "moves to another channel before the connection is made only"));
  }
  const std::shared_ptr<ChannelCore>& to = static_cast<Channel&>(channel).core();
  if (to == channel_) return absl::OkStatus();
  // Takes along what waits in the kernel, and waits for whoever handles an event of it now.
  if (rdma_migrate_id(id_->get(), to->get()) != 0) {
    return Named(SystemError("moving to another channel", errno));
  }
  channel_->Forget(this);
  channel_ = to;
  id_->set_channel(to);
  if (state_ == State::kEnded) return Named(absl::UnavailableError("the peer has gone"));
  return absl::OkStatus();
}

// ---- events ----

void VerbsConnection::OnEstablished(const rdma_cm_event& event) {
  rdma::ConnectionEvent established;
  established.kind = Kind::kEstablished;
  if (state_ == State::kConnecting) {
    TakePrivateData(event, established);
    established.responder_resources = event.param.conn.responder_resources;
    established.initiator_depth = event.param.conn.initiator_depth;
  } else if (state_ == State::kAccepted) {
    established.responder_resources = responder_resources_;
    established.initiator_depth = initiator_depth_;
  } else {
    return;
  }
  state_ = State::kEstablished;
  if (pair_ != nullptr) pair_->OnConnected();
  Say(std::move(established));
}

void VerbsConnection::OnCmEvent(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (state_ == State::kResolving) OnAddressResolved();
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (state_ != State::kResolving) return;
      state_ = State::kResolved;
      return Say(Kind::kResolved, absl::OkStatus());
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      if (state_ != State::kResolving) return;
      return NextOrUnreachable(absl::UnavailableError(ReasonOf(event)));
    case RDMA_CM_EVENT_ESTABLISHED:
      return OnEstablished(event);
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR: {
      if (state_ != State::kConnecting) {
        return End(absl::UnavailableError(absl::StrCat("the peer went: ", ReasonOf(event))));
      }
      if (!RefusedByPeer(event)) return Unreachable(absl::UnavailableError(ReasonOf(event)));
      state_ = State::kEnded;
      rdma::ConnectionEvent rejected;
      rejected.kind = Kind::kRejected;
      rejected.status = Named(absl::UnavailableError("the peer refused"));
      TakePrivateData(event, rejected);
      return Say(std::move(rejected));
    }
    case RDMA_CM_EVENT_DISCONNECTED:
      return End(absl::UnavailableError("the peer ended the connection, or its process went"));
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      Say(Kind::kDeviceRemoved,
          absl::UnavailableError(absl::StrCat(
              "the adapter ", adapter_ != nullptr ? adapter_->name() : "", " was removed")));
      return End(absl::UnavailableError("the adapter was removed"));
    default:  // TIMEWAIT_EXIT, ADDR_CHANGE: nothing to be done
      return;
  }
}

// ---- the end ----

void VerbsConnection::Disconnect() { End(absl::UnavailableError("disconnected by this side")); }

void VerbsConnection::OnQueuePairGone() {
  Disconnect();
  pair_ = nullptr;
}

void VerbsConnection::End(const absl::Status& status) {
  if (id_ == nullptr || id_->inherited()) return;
  // A request whose peer goes is not accepted any more.
  if (state_ == State::kRequested) state_ = State::kEnded;
  if (!alive()) return;
  state_ = State::kEnded;
  if (pair_ != nullptr) pair_->Fail();
  rdma_disconnect(id_->get());  // fails when the peer was first
  Say(Kind::kDisconnected, status);
}

void VerbsConnection::Unreachable(const absl::Status& status) {
  state_ = State::kEnded;
  Say(Kind::kUnreachable, status);
}

absl::Status VerbsConnection::Named(const absl::Status& status) const {
  if (status.ok() || absl::StartsWith(status.message(), peer_)) return status;
  return absl::Status(status.code(), absl::StrCat(peer_, ": ", status.message()));
}

void VerbsConnection::Say(Kind kind, const absl::Status& status) {
  rdma::ConnectionEvent event;
  event.kind = kind;
  event.status = Named(status);
  Say(std::move(event));
}

void VerbsConnection::Say(rdma::ConnectionEvent event) {
  event.id = this;
  channel_->Push(std::move(event));
}

}  // namespace farcall::verbs
