// One end of a connection: the connection manager's steps, from an address or a request to the end.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_CONNECTION_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_CONNECTION_H_

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/verbs/address.h"
#include "farcall/transports/rdma/verbs/cm_id.h"
#include "farcall/transports/rdma/verbs/event_channel.h"
#include "farcall/transports/rdma/verbs/family.h"
#include "farcall/transports/rdma/verbs/queue_pair.h"

namespace farcall::verbs {

class VerbsConnection : public rdma::ConnectionId, public CmTarget, private QueuePairOwner {
 public:
  // Active: goes on to kResolved or kUnreachable.
  VerbsConnection(std::shared_ptr<Family> family, std::shared_ptr<ChannelCore> channel,
                  std::string peer);
  void Resolve(const HostAndPort& address);
  // Passive: the new id of `request`.
  VerbsConnection(std::shared_ptr<Family> family, std::shared_ptr<Adapter> adapter,
                  std::shared_ptr<ChannelCore> channel, const rdma_cm_event& request);
  ~VerbsConnection() override;

  // ---- rdma::ConnectionId ----
  std::shared_ptr<rdma::Device> device() const override;
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> CreateQueuePair(
      rdma::ProtectionDomain& domain, const rdma::QueuePairOptions& options) override;
  absl::Status Connect(const rdma::ConnectionParameters& parameters) override;
  absl::Status Accept(const rdma::ConnectionParameters& parameters) override;
  absl::Status Reject(std::span<const std::byte> private_data) override;
  void Disconnect() override;
  absl::Status MoveTo(rdma::EventChannel& channel) override;
  std::string peer() const override { return peer_; }

  void OnCmEvent(const rdma_cm_event& event) override;

 private:
  enum class State {
    kResolving,
    kResolved,
    kConnecting,
    kRequested,
    kAccepted,
    kEstablished,
    kEnded
  };
  using Kind = rdma::ConnectionEvent::Kind;

  void OnQueuePairGone() override;
  void TryAddresses(absl::StatusOr<SocketAddresses> addresses);
  absl::Status TryNext();
  void NextOrUnreachable(const absl::Status& why);
  void OnAddressResolved();
  void OnEstablished(const rdma_cm_event& event);
  absl::Status MayHandshake(State wanted, const rdma::ConnectionParameters& parameters) const;
  rdma_conn_param ParametersOf(const rdma::ConnectionParameters& parameters) const;
  void SetAckTimeout() const;
  void Unreachable(const absl::Status& status);
  void End(const absl::Status& status);
  void Say(rdma::ConnectionEvent event);
  void Say(Kind kind, const absl::Status& status);
  absl::Status Named(const absl::Status& status) const;
  bool alive() const { return state_ == State::kAccepted || state_ == State::kEstablished; }

  const std::shared_ptr<Family> family_;
  std::shared_ptr<ChannelCore> channel_;
  const std::string peer_;
  State state_;
  std::shared_ptr<Adapter> adapter_;  // from RESOLVED on
  std::shared_ptr<CmId> id_;          // none while a name is looked up
  // Of addresses that did not do: an id is not destroyed while an event of it is handled.
  std::vector<std::shared_ptr<CmId>> spent_;
  VerbsQueuePair* pair_ = nullptr;
  // RESOLVING: what is left to try, the next one last; and who a look-up looks for.
  SocketAddresses addresses_;
  std::shared_ptr<char> looked_for_ = std::make_shared<char>();
  uint32_t responder_resources_ = 0, initiator_depth_ = 0;  // of the request
};

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_CONNECTION_H_
