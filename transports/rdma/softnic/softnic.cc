#include "farcall/transports/rdma/softnic/softnic.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/softnic/completion_queue.h"
#include "farcall/transports/rdma/softnic/connection.h"
#include "farcall/transports/rdma/softnic/device_core.h"
#include "farcall/transports/rdma/softnic/event_channel.h"
#include "farcall/transports/rdma/softnic/listener.h"
#include "farcall/transports/rdma/softnic/protection_domain.h"
#include "farcall/transports/rdma/softnic/runtime_folder.h"

namespace farcall::softnic {
namespace {

class SoftDevice : public rdma::Device {
 public:
  explicit SoftDevice(std::shared_ptr<DeviceCore> core) : core_(std::move(core)) {}

  const rdma::Capabilities& capabilities() const override { return core_->capabilities; }

  absl::StatusOr<std::unique_ptr<rdma::ProtectionDomain>> CreateProtectionDomain() override {
    absl::StatusOr<std::unique_ptr<KeyTable>> keys = KeyTable::Create(core_->options.keys);
    if (!keys.ok()) return keys.status();
    return std::make_unique<Domain>(
        std::make_shared<DomainCore>(*std::move(keys), core_->options.windows));
  }

  absl::StatusOr<std::unique_ptr<rdma::CompletionQueue>> CreateCompletionQueue(
      uint32_t depth) override {
    if (depth == 0 || depth > kMaxCompletionDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("softnic: completion queues have depths of 1 to ", kMaxCompletionDepth));
    }
    absl::StatusOr<std::shared_ptr<CompletionCore>> core = CompletionCore::Create(depth);
    if (!core.ok()) return core.status();
    return std::make_unique<Completions>(*std::move(core));
  }

  absl::StatusOr<std::unique_ptr<rdma::EventChannel>> CreateEventChannel() override {
    absl::StatusOr<std::shared_ptr<ChannelCore>> core = ChannelCore::Create();
    if (!core.ok()) return core.status();
    return std::make_unique<Channel>(*std::move(core));
  }

  absl::StatusOr<std::unique_ptr<rdma::AddressListener>> Listen(rdma::EventChannel& channel,
                                                                std::string_view address) override {
    absl::StatusOr<std::string> path = Path(address);
    if (!path.ok()) return path.status();
    absl::StatusOr<ListeningSocket> socket = ListeningSocket::Bind(*path);
    if (!socket.ok()) return socket.status();
    return std::make_unique<SoftListener>(core_, static_cast<Channel&>(channel).core(),
                                          std::string(address), *std::move(socket));
  }

  absl::StatusOr<std::unique_ptr<rdma::ConnectionId>> Resolve(rdma::EventChannel& channel,
                                                              std::string_view address) override {
    absl::StatusOr<std::string> path = Path(address);
    if (!path.ok()) return path.status();
    return std::make_unique<SoftConnection>(core_, static_cast<Channel&>(channel).core(),
                                            absl::StrCat("shm://", std::string(address)),
                                            *std::move(path));
  }

 private:
  absl::StatusOr<std::string> Path(std::string_view address) const {
    if (core_->removed.load(std::memory_order_relaxed)) {
      return absl::UnavailableError("softnic: the device was removed");
    }
    return SocketPath(core_->options.runtime_folder, address);
  }

  const std::shared_ptr<DeviceCore> core_;
};

rdma::Capabilities CapabilitiesOf(const SoftnicOptions& options) {
  rdma::Capabilities can;
  can.name = "softnic";
  can.max_send_depth = can.max_receive_depth = kMaxQueueDepth;
  can.max_completion_depth = kMaxCompletionDepth;
  can.max_inline = options.max_inline;
  can.max_send_bytes = options.arena_bytes / 2;
  can.max_read_bytes = uint64_t{1} << 31;  // what a READ can be on adapters, too
  can.max_send_sges = rdma::kMaxSges;
  can.max_read_sges = options.max_read_sges;
  can.max_initiator_depth = can.max_responder_resources = kMaxReadDepth;
  can.max_private_data = kMaxPrivateData;
  can.windows = options.windows;
  can.read_sink_needs_remote_write = options.read_sink_needs_remote_write;
  return can;
}

}  // namespace

absl::StatusOr<std::shared_ptr<rdma::Device>> MakeSoftnicDevice(SoftnicOptions options) {
  const char* wrong = nullptr;
  if (!Geometry{1, options.arena_bytes}.Valid()) wrong = "arena_bytes";
  if (options.keys == 0 || options.keys > kMaxKeys) wrong = "keys";
  if (options.max_inline > kSlotPayloadBytes) wrong = "max_inline";
  if (options.max_read_sges == 0 || options.max_read_sges > rdma::kMaxSges) {
    wrong = "max_read_sges";
  }
  if (wrong != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("SoftnicOptions::", wrong, " is out of bounds"));
  }
  auto core = std::make_shared<DeviceCore>();
  core->capabilities = CapabilitiesOf(options);
  if (!options.faults.faults.empty()) {
    core->faults = std::make_unique<Faults>(std::move(options.faults));
  }
  core->options = std::move(options);
  return std::make_shared<SoftDevice>(std::move(core));
}

}  // namespace farcall::softnic
