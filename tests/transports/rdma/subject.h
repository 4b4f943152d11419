// The device that the conformance cases run on. Each device's test program defines these and links
// the cases of conformance/.

#ifndef FARCALL_TESTS_TRANSPORTS_RDMA_SUBJECT_H_
#define FARCALL_TESTS_TRANSPORTS_RDMA_SUBJECT_H_

#include <memory>
#include <string>

#include "farcall/transports/rdma/device.h"

namespace farcall::rdma::testing {

// One device for all cases of a program.
Device& SubjectDevice();
// An address that this device can listen on and that nobody else uses.
std::string FreshAddress();

}  // namespace farcall::rdma::testing

#endif  // FARCALL_TESTS_TRANSPORTS_RDMA_SUBJECT_H_
