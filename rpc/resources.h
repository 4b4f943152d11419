// Threads of the library's own, and what to say when the system has none left of something.

#ifndef FARCALL_RPC_RESOURCES_H_
#define FARCALL_RPC_RESOURCES_H_

#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace farcall {

// A thread called `name` (15 characters of it) that takes no signals but those of its own faults
// (SIGSEGV): the others are for the program's own threads. The caller's signal mask is as before in
// any case. Throws std::system_error.
std::thread StartThread(const std::string& name, absl::AnyInvocable<void()> run);

// RESOURCE_EXHAUSTED: `what` ("an event loop cannot be made"), the cause, and the limit to raise.
absl::Status OutOfResources(std::string_view what, const std::error_code& cause);

}  // namespace farcall

#endif  // FARCALL_RPC_RESOURCES_H_
