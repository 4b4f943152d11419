// What the connections of a transport have in common, and the memory that they share the bounds of.

#ifndef FARCALL_TRANSPORTS_RDMA_SETTINGS_H_
#define FARCALL_TRANSPORTS_RDMA_SETTINGS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "farcall/rpc/endpoint.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/device_memory.h"
#include "farcall/transports/rdma/envelope.h"
#include "farcall/transports/rdma/memory_domain.h"
#include "farcall/transports/rdma/rdma.h"

namespace farcall::rdma {

// The device of a transport, made when it is first asked for. Any thread.
class DeviceHolder {
 public:
  explicit DeviceHolder(RdmaDeviceFactory factory) : factory_(std::move(factory)) {}
  // The same device every time; after a failure the factory is asked again.
  absl::StatusOr<std::shared_ptr<Device>> Get();

 private:
  Mutex mutex_;
  RdmaDeviceFactory factory_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Device> device_ ABSL_GUARDED_BY(mutex_);
};

// Constant, but for what it points to.
struct Settings {
  std::string scheme;
  RdmaOptions options;
  std::unique_ptr<DeviceHolder> device;
  MemoryDomain::Budgets budgets;
  std::unique_ptr<SharedMemoryDomain> shared_domain;  // of RdmaIsolation::kShared alone
  // Where both sides begin to count SENDs, transfers and work requests, all modulo 2^32: tests
  // begin close to the end.
  uint32_t count_from = 0;

  // What each connection tells of itself.
  Parameters parameters() const;
  // Payloads up to this travel eagerly.
  uint32_t threshold() const { return options.threshold.value_or(options.eager_bytes); }
};

// What MakeRdmaTransport (rdma.h) makes a transport of, and that transport.
std::shared_ptr<Settings> MakeSettings(std::string scheme, RdmaDeviceFactory device,
                                       const RdmaOptions& options);
std::shared_ptr<Transport> MakeTransport(std::shared_ptr<const Settings> settings);

// INVALID_ARGUMENT names the option that is out of bounds.
absl::Status CheckOptions(const RdmaOptions& options);

// INVALID_ARGUMENT: not an endpoint of `scheme`.
absl::Status CheckScheme(const Endpoint& endpoint, const std::string& scheme);
// In the device's own terms: "10.0.0.7:7000", a name.
std::string DeviceAddress(const Endpoint& endpoint);

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_SETTINGS_H_
