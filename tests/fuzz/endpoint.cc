// Addresses as users and configuration write them: what parses prints as what parses equally, and
// so does the kernel's form of it.

#include "farcall/rpc/endpoint.h"

#include "farcall/tests/fuzz/target.h"
#include "farcall/transports/tcp/address.h"

namespace farcall::fuzz {
namespace {

bool Same(const Endpoint& one, const Endpoint& other) {
  return one.scheme == other.scheme && one.host == other.host && one.port == other.port &&
         one.path == other.path;
}

}  // namespace

std::vector<std::string> Seeds() {
  return {"tcp://db.local:7000",
          "TCP://0.0.0.0:0",
          "tcp://[::1]:65535",
          "tcp://[fe80::1%eth0]:1",
          "tcp://[::ffff:10.1.2.3]:80",
          "tcp://[1:2:3:4:5:6:7:8]:9",
          "auto://xn--a_b-c.example:443",
          "rdma://node-1:4791",
          "unix:///run/x.sock",
          "loopback://name with space",
          "a+b-c.d://\xc3\xa9"};
}

void Run(Input input) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(input.rest());
  if (!endpoint.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(endpoint.status()));
    for (const char c : endpoint.status().message()) FUZZ_CHECK(c < 0 || c >= 0x20);
    return;
  }
  const absl::StatusOr<Endpoint> again = ParseEndpoint(endpoint->ToString());
  FUZZ_CHECK(again.ok() && Same(*again, *endpoint));

  if (!tcp::CheckEndpoint(*endpoint, /*connecting=*/false).ok()) return;
  if (endpoint->scheme == "unix") {
    FUZZ_CHECK(tcp::ToText(tcp::UnixAddress(*endpoint)) == endpoint->ToString());
  } else if (const auto address = tcp::NumericAddress(*endpoint)) {
    const absl::StatusOr<Endpoint> named = ParseEndpoint(tcp::ToText(*address));
    FUZZ_CHECK(named.ok() && named->port == endpoint->port);
    // Another spelling of the same address.
    const auto same = tcp::NumericAddress(*named);
    FUZZ_CHECK(same && *same == *address);
  }
}

}  // namespace farcall::fuzz
