// The software NIC, for the conformance cases.
#include <unistd.h>

#include <cstdlib>

#include "farcall/tests/transports/rdma/softnic_testing.h"
#include "farcall/tests/transports/rdma/subject.h"

namespace farcall::rdma::testing {

Device& SubjectDevice() {
  static const softnic::testing::Folder folder;
  static const std::shared_ptr<Device> device =
      softnic::testing::Make({.runtime_folder = folder.path()});
  return *device;
}

std::string FreshAddress() {
  static int number = 0;
  return "case-" + std::to_string(++number);
}

bool Says(CompletionStatus said, CompletionStatus wanted) { return said == wanted; }
Traits SubjectTraits() { return {}; }
int Slowness() { return 1; }

}  // namespace farcall::rdma::testing
