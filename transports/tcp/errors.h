// Errors of the operating system in the words of whoever has to mend them.

#ifndef FARCALL_TRANSPORTS_TCP_ERRORS_H_
#define FARCALL_TRANSPORTS_TCP_ERRORS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace farcall::tcp {

// "connection refused" for an errno, with what it means here where that is not plain.
std::string ErrorText(int error);

// UNAVAILABLE "<address>: <operation>: <cause>".
absl::Status SystemError(std::string_view address, std::string_view operation, int error);

// UNAVAILABLE: the resolver found no address for the name `host`, for the reason `why`. A process
// without descriptors finds none either, and the resolver does not say so: this does.
absl::Status NameError(std::string_view address, std::string_view operation, std::string_view host,
                       std::string_view why);

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_ERRORS_H_
