// The guest's adapter, for the conformance cases.
#include "farcall/tests/transports/rdma/subject.h"
#include "farcall/tests/transports/rdma/verbs_testing.h"

namespace farcall::rdma::testing {
namespace {

bool IsLocal(CompletionStatus status) {
  return status == CompletionStatus::kLocalLengthError ||
         status == CompletionStatus::kLocalQueuePairError ||
         status == CompletionStatus::kLocalProtectionError ||
         status == CompletionStatus::kBindError;
}

}  // namespace

Device& SubjectDevice() {
  static const std::shared_ptr<Device> device = verbs::testing::Make();
  return *device;
}

std::string FreshAddress() { return verbs::testing::Host() + ":0"; }

bool Says(CompletionStatus said, CompletionStatus wanted) {
  if (said == wanted) return true;
  if (!SubjectDevice().capabilities().acknowledges) return said != CompletionStatus::kSuccess;
  // Soft-RoCE has 'local queue pair operation error' for most of what is wrong on this side, and
  // 'remote operation error' for a receive that is too short.
  if (IsLocal(wanted)) return IsLocal(said);
  return wanted == CompletionStatus::kRemoteInvalidRequest &&
         said == CompletionStatus::kRemoteOperationError;
}

// Of Linux 6.1: Soft-RoCE compares a READ by a window's key with the bounds of the region.
// Soft-iWARP does not ask whether a region may be read, mixes up the depths of the two sides, and
// takes the answer to the next READ for that to an empty one.
Traits SubjectTraits() {
  const std::string& name = SubjectDevice().capabilities().name;
  const bool siw = name.starts_with("siw");
  return {.bounds_windows = !name.starts_with("rxe"),
          .checks_rights = !siw,
          .negotiates_depths = !siw,
          .empty_reads = !siw};
}

int Slowness() { return 10; }  // an emulated processor

}  // namespace farcall::rdma::testing
