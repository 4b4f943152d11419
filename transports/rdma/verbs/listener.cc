#include "farcall/transports/rdma/verbs/listener.h"

#include <arpa/inet.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/verbs/connection.h"
#include "farcall/transports/rdma/verbs/errors.h"
#include "farcall/transports/rdma/verbs/limits.h"

namespace farcall::verbs {
namespace {

absl::Status BindAndListen(rdma_cm_id* id, sockaddr_storage& address) {
  if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0) {
    // It says so of an address of another interface and of one that is nobody's, alike.
    if (errno == ENODEV) {
      return absl::UnavailableError(
          "no RDMA adapter has that address: 'rdma link' and 'ip address' say which interface has "
          "one");
    }
    return SystemError("binding", errno);
  }
  if (rdma_listen(id, kBacklog) != 0) return SystemError("listening", errno);
  return absl::OkStatus();
}

// An invalid address is a mistake of the caller's only if it does not parse.
absl::Status Unavailable(const std::string& address, const absl::Status& why) {
  return absl::UnavailableError(absl::StrCat(address, ": ", why.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsListener>> VerbsListener::Listen(
    std::shared_ptr<Family> family, std::shared_ptr<ChannelCore> channel,
    const HostAndPort& address) {
  const std::string name = absl::StrCat(address.host, ":", address.port);
  absl::StatusOr<SocketAddresses> found = LookUp(address);
  if (!found.ok()) return Unavailable(name, found.status());
  rdma_cm_id* made = nullptr;
  if (rdma_create_id(channel->get(), &made, nullptr, RDMA_PS_TCP) != 0) {
    return Unavailable(name, SystemError("no identifier of the connection manager", errno));
  }
  auto id = std::make_unique<CmId>(made, std::move(channel));
  absl::Status listening = BindAndListen(made, found->front());
  if (!listening.ok()) return Unavailable(name, listening);
  const bool v6 = address.host.find(':') != std::string::npos;
  std::string bound =
      absl::StrCat(v6 ? "[" : "", address.host, v6 ? "]:" : ":", ntohs(rdma_get_src_port(made)));
  return std::make_unique<VerbsListener>(std::move(family), std::move(id), std::move(bound));
}

VerbsListener::VerbsListener(std::shared_ptr<Family> family, std::unique_ptr<CmId> id,
                             std::string address)
    : family_(std::move(family)), id_(std::move(id)), address_(std::move(address)) {
  id_->get()->context = static_cast<CmTarget*>(this);
}

VerbsListener::~VerbsListener() {
  const std::shared_ptr<ChannelCore> channel = id_->channel();
  if (!id_->inherited()) id_->get()->context = nullptr;
  id_.reset();  // waits for whoever handles an event of it
  channel->Forget(this);
}

void VerbsListener::OnCmEvent(const rdma_cm_event& event) {
  if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST) return;
  // Until somebody has it, its own events go nowhere.
  event.id->context = nullptr;
  absl::StatusOr<std::shared_ptr<Adapter>> adapter = family_->AdapterOf(event.id->verbs);
  if (!adapter.ok()) {
    const std::string why(adapter.status().message().substr(0, kMaxPrivateData));
    rdma_reject(event.id, why.data(), static_cast<uint8_t>(why.size()));
    rdma_destroy_id(event.id);
    return;
  }
  rdma::ConnectionEvent request;
  request.kind = rdma::ConnectionEvent::Kind::kConnectRequest;
  request.listener = this;
  const rdma_conn_param& wants = event.param.conn;
  const auto* const bytes = static_cast<const std::byte*>(wants.private_data);
  if (bytes != nullptr) request.private_data.assign(bytes, bytes + wants.private_data_len);
  request.responder_resources = wants.responder_resources;
  request.initiator_depth = wants.initiator_depth;
  request.request =
      std::make_unique<VerbsConnection>(family_, *std::move(adapter), id_->channel(), event);
  id_->channel()->Push(std::move(request));
}

}  // namespace farcall::verbs
