#include "farcall/transports/rdma/settings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farcall::rdma {
namespace {

// Of a receive buffer, beyond the payload: the envelope and the head of a small call.
constexpr uint32_t kOverhead = kBufferAlignment;
static_assert(kOverhead >= kEnvelopeBytes);

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> DeviceHolder::Get() {
  MutexLock lock(mutex_);
  if (device_ == nullptr) {
    absl::StatusOr<std::shared_ptr<Device>> made = factory_();
    if (!made.ok()) return made.status();
    device_ = *std::move(made);
  }
  return device_;
}

std::shared_ptr<Settings> MakeSettings(std::string scheme, RdmaDeviceFactory device,
                                       const RdmaOptions& options) {
  auto settings = std::make_shared<Settings>();
  settings->scheme = std::move(scheme);
  settings->budgets.send =
      std::make_shared<Budget>(options.send_pool_bytes, "RdmaOptions::send_pool_bytes");
  settings->budgets.receive =
      std::make_shared<Budget>(options.receive_pool_bytes, "RdmaOptions::receive_pool_bytes");
  settings->device = std::make_unique<DeviceHolder>(std::move(device));
  settings->options = options;
  if (options.isolation == RdmaIsolation::kShared) {
    settings->shared_domain = std::make_unique<SharedMemoryDomain>();
  }
  return settings;
}

Parameters Settings::parameters() const {
  return {.receive_depth = options.receive_depth,
          .receive_bytes = std::max(options.eager_bytes + kOverhead, kMinReceiveBytes),
          .max_transfers = static_cast<uint32_t>(
              std::clamp<size_t>(options.limits.max_transfers, 1, kMaxTransfers))};
}

absl::Status CheckOptions(const RdmaOptions& options) {
  const auto wrong = [](const char* option, uint64_t value, const std::string& rule) {
    return absl::InvalidArgumentError(
        absl::StrCat("RdmaOptions::", option, " is ", value, ": it must be ", rule));
  };
  if (options.receive_depth < kMinReceiveDepth || options.receive_depth > kMaxReceiveDepth) {
    return wrong("receive_depth", options.receive_depth,
                 absl::StrCat(kMinReceiveDepth, " to ", kMaxReceiveDepth));
  }
  constexpr uint32_t kMaxEager = kMaxReceiveBytes - kOverhead;
  if (options.eager_bytes > kMaxEager || options.eager_bytes % kBufferAlignment != 0) {
    return wrong("eager_bytes", options.eager_bytes,
                 absl::StrCat("a multiple of ", kBufferAlignment, ", at most ", kMaxEager));
  }
  if (options.threshold.has_value() && *options.threshold > options.eager_bytes) {
    return wrong("threshold", *options.threshold,
                 absl::StrCat("at most eager_bytes, ", options.eager_bytes));
  }
  if (options.chunk_bytes == 0 || options.chunk_bytes > kMaxChunk) {
    return wrong("chunk_bytes", options.chunk_bytes, absl::StrCat("1 to ", kMaxChunk));
  }
  if (options.read_depth == 0) return wrong("read_depth", 0, "at least 1");
  return absl::OkStatus();
}

absl::Status CheckScheme(const Endpoint& endpoint, const std::string& scheme) {
  if (endpoint.scheme == scheme) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(endpoint.ToString(), ": this transport serves ", scheme, ":// only"));
}

std::string DeviceAddress(const Endpoint& endpoint) {
  if (endpoint.host.empty()) return endpoint.path;
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return absl::StrCat(v6 ? "[" : "", endpoint.host, v6 ? "]:" : ":", endpoint.port);
}

}  // namespace farcall::rdma
