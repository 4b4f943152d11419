// What the system says, in words: the cause and the remedy.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_ERRORS_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_ERRORS_H_

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace farcall::verbs {

// `what` failed with errno `error`. RESOURCE_EXHAUSTED, PERMISSION_DENIED, INVALID_ARGUMENT or
// UNAVAILABLE, after the error.
absl::Status SystemError(std::string_view what, int error);
// Memory that the adapter does not take: names the size, and the limit if that is why.
absl::Status RegistrationError(std::string_view adapter, size_t bytes, int error);

// Why a connection did not come to be, by the event that says so.
std::string ReasonOf(const rdma_cm_event& event);
// The peer's application said no, and no device or kernel on the way.
bool RefusedByPeer(const rdma_cm_event& event);

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_ERRORS_H_
