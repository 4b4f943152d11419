// A device that lets peers read memory of any origin, as adapters do, made of a software NIC that
// does not: for both ends of one process. Behind memory that is registered for peers lies a shadow
// of the NIC's own; a READ brings the shadow up to date before the NIC carries it out.

#ifndef FARCALL_TESTS_TRANSPORTS_RDMA_ANYWHERE_H_
#define FARCALL_TESTS_TRANSPORTS_RDMA_ANYWHERE_H_

#include <memory>

#include "farcall/transports/rdma/device.h"

namespace farcall::testing {

// All memory that is registered for peers is in one domain of the device, or in one a connection
// and none twice: an address alone says what is meant.
std::shared_ptr<rdma::Device> MakeAnywhereDevice(std::shared_ptr<rdma::Device> softnic);

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_TRANSPORTS_RDMA_ANYWHERE_H_
