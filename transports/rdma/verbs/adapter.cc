#include "farcall/transports/rdma/verbs/adapter.h"

#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/verbs/errors.h"
#include "farcall/transports/rdma/verbs/limits.h"

namespace farcall::verbs {
namespace {

// Soft-iWARP. What follows is no capability that an adapter can be asked for.
constexpr uint32_t kSiwVendor = 0x626d74;
// One thread of a processor's sends for all queue pairs, and an answer to a READ to its end:
// shorter ones let others through.
constexpr uint64_t kSiwMaxRead = uint64_t{64} << 10;
// Its library maps queues at offsets that count up from 0 in whole pages, and takes the one at
// 0x90000 for a failure (SIW_INVAL_UOBJ_KEY): EINVAL for every queue pair from the twelfth
// connection or so on. A completion queue of so many entries, 32 bytes each, lies across it.
constexpr int kSiwSpanEntries = 0x98000 / 32;

uint32_t Positive(int value) { return static_cast<uint32_t>(std::max(value, 0)); }

// Never destroyed, as `context` is not.
absl::Status SpanSiwsFalseFailure(ibv_context* context) {
  if (ibv_create_cq(context, kSiwSpanEntries, nullptr, nullptr, 0) != nullptr) {
    return absl::OkStatus();
  }
  return SystemError("soft-iWARP: a completion queue", errno);
}

// librdmacm says 'no such device' for each of these, and which it is one wants to know.
absl::Status WhyNone() {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  // ENOSYS: the kernel has no verbs for programs, which is how a machine without an adapter looks.
  if (devices == nullptr && errno != ENOSYS) return SystemError("listing the RDMA adapters", errno);
  std::string names;
  for (int i = 0; i < count; ++i) absl::StrAppend(&names, " ", ibv_get_device_name(devices[i]));
  if (devices != nullptr) ibv_free_device_list(devices);
  if (count == 0) {
    return absl::UnavailableError(
        "this machine has no RDMA adapter: /sys/class/infiniband_verbs is empty, or its user-space "
        "driver (package ibverbs-providers) is not installed. Load the adapter's kernel driver, or "
        "make a software one ('rdma link add rxe0 type rxe netdev <interface>'), or use tcp://");
  }
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) {
    const int error = errno;
    return absl::Status(
        error == EACCES || error == EPERM ? absl::StatusCode::kPermissionDenied
                                          : absl::StatusCode::kUnavailable,
        absl::StrCat("the RDMA connection manager (/dev/infiniband/rdma_cm) does not open: ",
                     SystemError("rdma_create_event_channel", error).message(),
                     "; the kernel module is rdma_ucm; adapters:", names));
  }
  rdma_destroy_event_channel(channel);
  return absl::UnavailableError(absl::StrCat("none of the RDMA adapters opens:", names));
}

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<Adapter>>> OpenAdapters() {
  int count = 0;
  ibv_context** const contexts = rdma_get_devices(&count);
  if (contexts == nullptr || count == 0) {
    if (contexts != nullptr) rdma_free_devices(contexts);
    return WhyNone();
  }
  std::vector<std::shared_ptr<Adapter>> adapters;
  absl::Status last = absl::OkStatus();
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<std::shared_ptr<Adapter>> adapter = Adapter::Of(contexts[i]);
    if (adapter.ok()) {
      adapters.push_back(*std::move(adapter));
    } else {
      last = adapter.status();
    }
  }
  rdma_free_devices(contexts);
  if (adapters.empty()) return last;
  return adapters;
}

absl::StatusOr<std::shared_ptr<Adapter>> Adapter::Of(ibv_context* context) {
  static Mutex mutex;
  // Never destroyed, as the contexts are not.
  static auto* const all = new std::map<ibv_context*, std::shared_ptr<Adapter>>;
  MutexLock lock(mutex);
  std::shared_ptr<Adapter>& adapter = (*all)[context];
  if (adapter == nullptr || adapter->guard_.inherited()) {
    auto made = std::make_shared<Adapter>(context);
    absl::Status asked = made->Ask();
    if (!asked.ok()) return asked;
    adapter = std::move(made);
  }
  return adapter;
}

absl::Status Adapter::Ask() {
  ibv_device_attr has{};
  const std::string name = ibv_get_device_name(context_->device);
  if (const int error = ibv_query_device(context_, &has); error != 0) {
    return SystemError(absl::StrCat("asking the adapter ", name), error);
  }
  // Without a port that is up, some ask for less; none asks for more.
  uint64_t message = uint64_t{1} << 30;
  for (uint8_t port = 1; port <= has.phys_port_cnt; ++port) {
    ibv_port_attr attributes{};
    if (ibv_query_port(context_, port, &attributes) != 0) continue;
    active_ = active_ || attributes.state == IBV_PORT_ACTIVE;
    if (attributes.max_msg_sz != 0) message = std::min<uint64_t>(message, attributes.max_msg_sz);
  }
  const bool iwarp = context_->device->transport_type == IBV_TRANSPORT_IWARP;
  const bool siw = has.vendor_id == kSiwVendor;
  if (siw) {
    absl::Status spanned = SpanSiwsFalseFailure(context_);
    if (!spanned.ok()) return spanned;
  }
  const uint32_t sges = std::min(Positive(has.max_sge), uint32_t{rdma::kMaxSges});
  capabilities_ = {
      .name = name,
      .max_send_depth = Positive(has.max_qp_wr),
      .max_receive_depth = Positive(has.max_qp_wr),
      .max_completion_depth = Positive(has.max_cqe),
      .max_inline = kMaxInline,
      .max_send_bytes = static_cast<uint32_t>(message),
      .max_read_bytes = siw ? std::min(message, kSiwMaxRead) : message,
      .max_send_sges = sges,
      .max_read_sges = iwarp ? 1 : sges,
      .max_initiator_depth = Positive(has.max_qp_init_rd_atom),
      .max_responder_resources = Positive(has.max_qp_rd_atom),
      .max_private_data = kMaxPrivateData,
      .windows = has.max_mw > 0 && (has.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A |
                                                            IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0,
      .read_sink_needs_remote_write = iwarp,
      .remote_read_anywhere = true,
      .acknowledges = !iwarp,
  };
  const int flags = ::fcntl(context_->async_fd, F_GETFL);
  ::fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK);
  return absl::OkStatus();
}

void Adapter::Watch(ibv_cq* queue, std::atomic<bool>& overrun) {
  MutexLock lock(mutex_);
  queues_.emplace(queue, &overrun);
}

void Adapter::Forget(ibv_cq* queue) {
  MutexLock lock(mutex_);
  queues_.erase(queue);
}

void Adapter::ReadAsyncEvents() {
  if (guard_.inherited()) return;
  MutexLock lock(mutex_);
  ibv_async_event event{};
  while (ibv_get_async_event(context_, &event) == 0) {
    if (event.event_type == IBV_EVENT_CQ_ERR) {
      const auto queue = queues_.find(event.element.cq);
      if (queue != queues_.end()) queue->second->store(true, std::memory_order_relaxed);
    } else if (event.event_type == IBV_EVENT_DEVICE_FATAL) {
      failed_.store(true, std::memory_order_relaxed);
    }
    ibv_ack_async_event(&event);
  }
}

}  // namespace farcall::verbs
