// A listener of the connection manager.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_LISTENER_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_LISTENER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/verbs/address.h"
#include "farcall/transports/rdma/verbs/cm_id.h"
#include "farcall/transports/rdma/verbs/event_channel.h"
#include "farcall/transports/rdma/verbs/family.h"

namespace farcall::verbs {

class VerbsListener : public rdma::AddressListener, public CmTarget {
 public:
  static absl::StatusOr<std::unique_ptr<VerbsListener>> Listen(std::shared_ptr<Family> family,
                                                               std::shared_ptr<ChannelCore> channel,
                                                               const HostAndPort& address);
  VerbsListener(std::shared_ptr<Family> family, std::unique_ptr<CmId> id, std::string address);
  ~VerbsListener() override;

  std::string address() const override { return address_; }
  void OnCmEvent(const rdma_cm_event& event) override;

 private:
  const std::shared_ptr<Family> family_;
  std::unique_ptr<CmId> id_;
  const std::string address_;
};

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_LISTENER_H_
