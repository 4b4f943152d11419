// Endpoint: an address as a user writes it, "tcp://host:port", taken apart but not resolved.

#ifndef FARCALL_RPC_ENDPOINT_H_
#define FARCALL_RPC_ENDPOINT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace farcall {

struct Endpoint {
  std::string scheme;  // "tcp", "unix", "loopback", …, lower case
  std::string host;    // name, IPv4 or IPv6 address without brackets; empty for path-like schemes
  uint16_t port = 0;   // with `host`
  std::string path;    // "unix:///run/x.sock" -> "/run/x.sock"; "loopback://name" -> "name"

  // The spelling that ParseEndpoint reads back to the same Endpoint (IPv6 in brackets).
  std::string ToString() const;
};

// Reads "tcp://host:port", "tcp://[v6]:port", "unix:///path", "loopback://name". A scheme that is
// not known to take host and port is read as path-like; whether a scheme is served is decided by
// the dialer. INVALID_ARGUMENT quotes the address and says what is wrong with it.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view address);

}  // namespace farcall

#endif  // FARCALL_RPC_ENDPOINT_H_
