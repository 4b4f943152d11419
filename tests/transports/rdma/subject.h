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
// What some software adapters do not keep of the contract; true of all others.
struct Traits {
  bool bounds_windows = true;     // else a READ by a window's key has the bounds of its region
  bool checks_rights = true;      // of READs; else any region of the protection domain is read
  bool negotiates_depths = true;  // else the active side is told what it asked for itself
  bool empty_reads = true;        // of 0 bytes, between others
};
Traits SubjectTraits();
// Cases of many rounds divide by it, on a device that takes its time.
int Slowness();

}  // namespace farcall::rdma::testing

#endif  // FARCALL_TESTS_TRANSPORTS_RDMA_SUBJECT_H_
