#include "farcall/transports/rdma/rdma.h"

#include <utility>
#include <vector>

#include "farcall/transports/rdma/connection.h"
#include "farcall/transports/rdma/connector.h"
#include "farcall/transports/rdma/listener.h"
#include "farcall/transports/rdma/settings.h"

namespace farcall {
namespace {

class RdmaTransport final : public Transport {
 public:
  explicit RdmaTransport(std::shared_ptr<const rdma::Settings> settings)
      : settings_(std::move(settings)) {}

  std::unique_ptr<PendingConnect> Connect(EventLoop& loop, const Endpoint& endpoint,
                                          TimePoint deadline, ConnectDone done) override {
    return rdma::StartConnect(loop, endpoint, deadline, std::move(done), settings_);
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint,
                                                   std::vector<EventLoop*> loops,
                                                   Acceptor acceptor) override {
    return rdma::StartListening(endpoint, std::move(loops), std::move(acceptor), settings_);
  }

  std::vector<std::shared_ptr<BufferPool>> pools() const override {
    if (settings_->shared_domain == nullptr) return {};
    return settings_->shared_domain->pools();
  }

 private:
  const std::shared_ptr<const rdma::Settings> settings_;
};

}  // namespace

std::shared_ptr<Transport> MakeRdmaTransport(std::string scheme, RdmaDeviceFactory device,
                                             const RdmaOptions& options) {
  return rdma::MakeTransport(rdma::MakeSettings(std::move(scheme), std::move(device), options));
}

std::shared_ptr<Transport> rdma::MakeTransport(std::shared_ptr<const Settings> settings) {
  return std::make_shared<RdmaTransport>(std::move(settings));
}

std::optional<RdmaCounters> RdmaCountersOf(const Connection& connection) {
  const auto* rdma = dynamic_cast<const rdma::RdmaConnection*>(&connection);
  if (rdma == nullptr) return std::nullopt;
  return rdma->counters();
}

}  // namespace farcall
