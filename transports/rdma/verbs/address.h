// Addresses of this device: "host:port", "[v6]:port".

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_ADDRESS_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_ADDRESS_H_

#include <sys/socket.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

namespace farcall::verbs {

struct HostAndPort {
  std::string host, port;
};
// INVALID_ARGUMENT says what is wrong.
absl::StatusOr<HostAndPort> ParseAddress(std::string_view address);

// At least one, in the order in which they should be tried.
using SocketAddresses = std::vector<sockaddr_storage>;

// Numeric addresses only, at once; without a name server. NOT_FOUND: it is a name.
absl::StatusOr<SocketAddresses> NumericAddress(const HostAndPort& address);
// Names, too; asks the name servers as long as that takes.
absl::StatusOr<SocketAddresses> LookUp(const HostAndPort& address);
// The same on a thread of its own, which calls `done`.
absl::Status StartLookUp(const HostAndPort& address,
                         absl::AnyInvocable<void(absl::StatusOr<SocketAddresses>)> done);

// "10.0.0.7:7000"
std::string AddressText(const sockaddr& address);

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_ADDRESS_H_
