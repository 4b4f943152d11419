// What all objects of one software NIC share.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_DEVICE_CORE_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_DEVICE_CORE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "farcall/transports/rdma/softnic/softnic.h"

namespace farcall::softnic {

struct DeviceCore {
  SoftnicOptions options;
  rdma::Capabilities capabilities;
  std::unique_ptr<Faults> faults;  // null: none
  std::atomic<bool> removed{false};
  std::atomic<uint32_t> next_queue_pair{1};
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_DEVICE_CORE_H_
