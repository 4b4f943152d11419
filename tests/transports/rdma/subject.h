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
// Whether `said` will do where the contract's word is `wanted`: adapters differ in how exactly they
// say what went wrong, but that it did all of them say.
bool Says(CompletionStatus said, CompletionStatus wanted);
// Whether a window's bounds hold. Where they do not, only its region's do.
bool BoundsWindows();
// Cases of many rounds divide by it, on a device that takes its time.
int Slowness();

}  // namespace farcall::rdma::testing

#endif  // FARCALL_TESTS_TRANSPORTS_RDMA_SUBJECT_H_
