#include "farcall/transports/rdma/memory_domain.h"

#include <algorithm>
#include <utility>

#include "farcall/transports/rdma/limits.h"

namespace farcall::rdma {
namespace {

struct PoolSize {
  size_t bytes;
  const char* option;
};

std::shared_ptr<BufferPool> MakePool(const char* name, PoolSize size,
                                     std::unique_ptr<SlabSource> memory) {
  const size_t bytes = size.bytes;
  return std::make_shared<BufferPool>(
      BufferPoolOptions{.name = name,
                        .option = size.option,
                        .max_bytes = bytes,
                        .small_bytes = bytes / kSmallShare,
                        .max_cached_bytes = std::min(bytes / 2, kMaxCachedBytes)},
      std::move(memory));
}

// What a pool of `all` may be, which is for all connections.
PoolSize PoolSizeOf(const RdmaOptions& options, PoolSize all) {
  if (options.isolation == RdmaIsolation::kShared || options.connection_pool_bytes >= all.bytes) {
    return all;
  }
  return {options.connection_pool_bytes, "RdmaOptions::connection_pool_bytes"};
}

Access ReadableAccess(bool windows) {
  return windows ? Access{.bind = true} : Access{.remote_read = true};
}

Access SinkAccess(const Capabilities& can) {
  return {.local_write = true, .remote_write = can.read_sink_needs_remote_write};
}

}  // namespace

absl::StatusOr<std::shared_ptr<MemoryDomain>> MemoryDomain::Create(Device& device,
                                                                   const RdmaOptions& options,
                                                                   const Budgets& budgets) {
  absl::StatusOr<std::unique_ptr<ProtectionDomain>> domain = device.CreateProtectionDomain();
  if (!domain.ok()) return domain.status();
  return std::make_shared<MemoryDomain>(*std::move(domain), device.capabilities(), options,
                                        budgets);
}

MemoryDomain::MemoryDomain(std::shared_ptr<ProtectionDomain> domain, const Capabilities& can,
                           const RdmaOptions& options, const Budgets& budgets)
    : domain_(std::move(domain)),
      windows_(can.windows && options.isolation != RdmaIsolation::kDomain),
      local_regions_(domain_, SinkAccess(can)),
      readable_regions_(domain_, ReadableAccess(windows_)) {
  auto send = std::make_unique<DeviceMemory>(domain_, ReadableAccess(windows_), budgets.send);
  auto receive = std::make_unique<DeviceMemory>(domain_, SinkAccess(can), budgets.receive);
  send_memory_ = send.get();
  receive_memory_ = receive.get();
  send_pool_ = MakePool(
      "rdma send", PoolSizeOf(options, {options.send_pool_bytes, "RdmaOptions::send_pool_bytes"}),
      std::move(send));
  receive_pool_ =
      MakePool("rdma receive",
               PoolSizeOf(options, {options.receive_pool_bytes, "RdmaOptions::receive_pool_bytes"}),
               std::move(receive));
}

uint64_t MemoryDomain::registrations() const {
  return send_memory_->registrations() + receive_memory_->registrations() +
         local_regions_.registrations() + readable_regions_.registrations();
}

absl::StatusOr<std::shared_ptr<MemoryDomain>> SharedMemoryDomain::Get(
    Device& device, const RdmaOptions& options, const MemoryDomain::Budgets& budgets) {
  MutexLock lock(mutex_);
  std::shared_ptr<MemoryDomain> domain = domain_.lock();
  if (domain != nullptr) return domain;
  absl::StatusOr<std::shared_ptr<MemoryDomain>> made =
      MemoryDomain::Create(device, options, budgets);
  if (made.ok()) domain_ = *made;
  return made;
}

std::vector<std::shared_ptr<BufferPool>> SharedMemoryDomain::pools() const {
  MutexLock lock(mutex_);
  const std::shared_ptr<MemoryDomain> domain = domain_.lock();
  if (domain == nullptr) return {};
  return {domain->send_pool(), domain->receive_pool()};
}

}  // namespace farcall::rdma
