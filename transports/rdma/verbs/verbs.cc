#include "farcall/transports/rdma/verbs/verbs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/transports/rdma/verbs/address.h"
#include "farcall/transports/rdma/verbs/completion_queue.h"
#include "farcall/transports/rdma/verbs/connection.h"
#include "farcall/transports/rdma/verbs/errors.h"
#include "farcall/transports/rdma/verbs/event_channel.h"
#include "farcall/transports/rdma/verbs/family.h"
#include "farcall/transports/rdma/verbs/listener.h"
#include "farcall/transports/rdma/verbs/protection_domain.h"

namespace farcall::verbs {
namespace {

absl::Status Inherited() {
  return absl::FailedPreconditionError(
      "this device belongs to the parent process; make another after fork");
}

class VerbsDevice : public rdma::Device {
 public:
  VerbsDevice(std::shared_ptr<Family> family, std::shared_ptr<Adapter> adapter)
      : family_(std::move(family)), adapter_(std::move(adapter)) {}

  const rdma::Capabilities& capabilities() const override { return adapter_->capabilities(); }

  absl::StatusOr<std::unique_ptr<rdma::ProtectionDomain>> CreateProtectionDomain() override {
    if (adapter_->inherited()) return Inherited();
    ibv_pd* const domain = ibv_alloc_pd(adapter_->context());
    if (domain == nullptr) {
      return SystemError(absl::StrCat(adapter_->name(), ": no protection domain"), errno);
    }
    return std::make_unique<Domain>(std::make_shared<DomainCore>(adapter_, domain));
  }

  absl::StatusOr<std::unique_ptr<rdma::CompletionQueue>> CreateCompletionQueue(
      uint32_t depth) override {
    if (adapter_->inherited()) return Inherited();
    absl::StatusOr<std::shared_ptr<CompletionCore>> core = CompletionCore::Create(adapter_, depth);
    if (!core.ok()) return core.status();
    return std::make_unique<Completions>(*std::move(core));
  }

  absl::StatusOr<std::unique_ptr<rdma::EventChannel>> CreateEventChannel() override {
    if (adapter_->inherited()) return Inherited();
    absl::StatusOr<std::shared_ptr<ChannelCore>> core = ChannelCore::Create(adapter_);
    if (!core.ok()) return core.status();
    return std::make_unique<Channel>(*std::move(core));
  }

  absl::StatusOr<std::unique_ptr<rdma::AddressListener>> Listen(rdma::EventChannel& channel,
                                                                std::string_view address) override {
    absl::StatusOr<HostAndPort> parsed = ParseAddress(address);
    if (!parsed.ok()) return parsed.status();
    absl::StatusOr<std::unique_ptr<VerbsListener>> listener =
        VerbsListener::Listen(family_, static_cast<Channel&>(channel).core(), *parsed);
    if (!listener.ok()) return listener.status();
    return *std::move(listener);
  }

  absl::StatusOr<std::unique_ptr<rdma::ConnectionId>> Resolve(rdma::EventChannel& channel,
                                                              std::string_view address) override {
    absl::StatusOr<HostAndPort> parsed = ParseAddress(address);
    if (!parsed.ok()) return parsed.status();
    auto connection = std::make_unique<VerbsConnection>(
        family_, static_cast<Channel&>(channel).core(), absl::StrCat("rdma://", Absl(address)));
    connection->Resolve(*parsed);
    return connection;
  }

 private:
  const std::shared_ptr<Family> family_;
  const std::shared_ptr<Adapter> adapter_;
};

// The one that is named, or one that has a port up: routes may lead through others.
absl::StatusOr<std::shared_ptr<Adapter>> Choose(
    const std::vector<std::shared_ptr<Adapter>>& adapters, const std::string& name) {
  std::string names;
  for (const auto& adapter : adapters) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", adapter->name(),
                    adapter->active() ? "" : " (no port is up)");
    if (name.empty() ? adapter->active() : adapter->name() == name) return adapter;
  }
  if (name.empty()) {
    return absl::UnavailableError(
        absl::StrCat("no RDMA adapter has an active port: ", names,
                     "; 'rdma link' and 'ip link' say what their ports are waiting for"));
  }
  return absl::UnavailableError(absl::StrCat("there is no RDMA adapter '", name,
                                             "' (VerbsOptions::adapter); there are: ", names));
}

absl::Status CheckOptions(const VerbsOptions& options) {
  if (options.ack_timeout > 31) {
    return absl::InvalidArgumentError("VerbsOptions::ack_timeout is above 31");
  }
  if (options.retries > 7) return absl::InvalidArgumentError("VerbsOptions::retries is above 7");
  if (!options.source_address.empty() && !NumericAddress({options.source_address, "0"}).ok()) {
    return absl::InvalidArgumentError("VerbsOptions::source_address is not a numeric address");
  }
  return absl::OkStatus();
}

// Where the kernel does not copy what an adapter has pinned when a process forks, libibverbs keeps
// it from the child; which it must know before the first registration.
absl::Status PrepareForFork() {
  static const int error = ibv_is_fork_initialized() == IBV_FORK_DISABLED ? ibv_fork_init() : 0;
  if (error == 0) return absl::OkStatus();
  return SystemError("ibv_fork_init (without it a fork would corrupt messages)", error);
}

}  // namespace

std::shared_ptr<rdma::Device> Family::DeviceOf(const std::shared_ptr<Adapter>& adapter) {
  MutexLock lock(mutex_);
  std::weak_ptr<rdma::Device>& known = devices_[adapter.get()];
  std::shared_ptr<rdma::Device> device = known.lock();
  if (device == nullptr) {
    device = std::make_shared<VerbsDevice>(shared_from_this(), adapter);
    known = device;
  }
  return device;
}

absl::StatusOr<std::shared_ptr<Adapter>> Family::AdapterOf(ibv_context* context) const {
  if (context == nullptr) {
    return absl::UnavailableError("no RDMA adapter belongs to the interface that leads there");
  }
  absl::StatusOr<std::shared_ptr<Adapter>> adapter = Adapter::Of(context);
  if (!adapter.ok() || options_.adapter.empty() || (*adapter)->name() == options_.adapter) {
    return adapter;
  }
  return absl::UnavailableError(absl::StrCat("the route leads through the adapter ",
                                             (*adapter)->name(), ", and only ", options_.adapter,
                                             " may be used (VerbsOptions::adapter)"));
}

absl::StatusOr<std::shared_ptr<rdma::Device>> MakeVerbsDevice(VerbsOptions options) {
  absl::Status check = CheckOptions(options);
  if (check.ok()) check = PrepareForFork();
  if (!check.ok()) return check;
  absl::StatusOr<std::vector<std::shared_ptr<Adapter>>> adapters = OpenAdapters();
  if (!adapters.ok()) return adapters.status();
  absl::StatusOr<std::shared_ptr<Adapter>> chosen = Choose(*adapters, options.adapter);
  if (!chosen.ok()) return chosen.status();
  return std::make_shared<Family>(std::move(options))->DeviceOf(*chosen);
}

}  // namespace farcall::verbs
