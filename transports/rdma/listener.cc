#include "farcall/transports/rdma/listener.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "farcall/transports/rdma/accepting.h"

namespace farcall::rdma {
namespace {

class RdmaListener final : public Listener {
 public:
  RdmaListener(Endpoint address, std::shared_ptr<Accepting> accepting)
      : address_(std::move(address)), accepting_(std::move(accepting)) {}
  ~RdmaListener() override { Stop(); }

  Endpoint address() const override { return address_; }
  void Stop() override { accepting_->Stop(); }

 private:
  const Endpoint address_;
  const std::shared_ptr<Accepting> accepting_;
};

absl::Status CannotListen(const Endpoint& endpoint, const absl::Status& why) {
  return absl::Status(why.code(),
                      absl::StrCat(endpoint.ToString(), ": cannot listen: ",
                                   absl::StripPrefix(why.message(), endpoint.ToString() + ": ")));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> StartListening(const Endpoint& endpoint,
                                                         std::vector<EventLoop*> loops,
                                                         Transport::Acceptor acceptor,
                                                         std::shared_ptr<const Settings> settings) {
  absl::Status check = CheckScheme(endpoint, settings->scheme);
  if (check.ok()) check = CheckOptions(settings->options);
  if (!check.ok()) return check;
  if (loops.empty() || acceptor == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(endpoint.ToString(), ": Listen needs a loop and an acceptor"));
  }
  absl::StatusOr<std::shared_ptr<Device>> device = settings->device->Get();
  if (!device.ok()) return CannotListen(endpoint, device.status());
  absl::StatusOr<std::unique_ptr<EventChannel>> channel = (*device)->CreateEventChannel();
  if (!channel.ok()) return CannotListen(endpoint, channel.status());
  absl::StatusOr<std::unique_ptr<AddressListener>> listener =
      (*device)->Listen(**channel, DeviceAddress(endpoint));
  if (!listener.ok()) return CannotListen(endpoint, listener.status());

  // The port that was bound, where there are ports.
  absl::StatusOr<Endpoint> bound =
      ParseEndpoint(absl::StrCat(settings->scheme, "://", (*listener)->address()));
  if (!bound.ok()) return CannotListen(endpoint, bound.status());
  auto accepting = std::make_shared<Accepting>(
      bound->ToString(), *std::move(device), *std::move(channel), *std::move(listener),
      std::move(loops), std::move(acceptor), std::move(settings));
  accepting->Start();
  return std::make_unique<RdmaListener>(*std::move(bound), std::move(accepting));
}

}  // namespace farcall::rdma
