#include "farcall/tests/transports/conformance.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farcall/tests/transports/tcp/raw_socket.h"
#include "farcall/transports/tcp/tcp.h"

namespace farcall::testing {
namespace {

std::shared_ptr<Transport> Make(TransportLimits limits) {
  TcpOptions options;
  options.limits = limits;
  return MakeTcpTransport(options);
}

Endpoint NewPort() { return ParseEndpoint("tcp://127.0.0.1:0").value(); }
Endpoint NewPort6() { return ParseEndpoint("tcp://[::1]:0").value(); }
Endpoint NewPath() {
  static std::atomic<int> paths = 0;
  return ParseEndpoint("unix:///tmp/farcall-test-" + std::to_string(::getpid()) + "-" +
                       std::to_string(++paths))
      .value();
}

// A server whose queue of waiting clients is full: the kernel answers nobody.
std::pair<Endpoint, std::shared_ptr<void>> Deaf(const Endpoint& endpoint) {
  using Sockets = std::vector<tcp::testing::RawSocket>;
  const std::shared_ptr<Sockets> sockets(new Sockets, [path = endpoint.path](Sockets* all) {
    delete all;
    if (!path.empty()) ::unlink(path.c_str());
  });
  sockets->push_back(tcp::testing::RawSocket::Listen(endpoint, /*backlog=*/0));
  const Endpoint address = sockets->front().address();
  for (int i = 0; i < 4; ++i) sockets->push_back(tcp::testing::RawSocket::StartConnect(address));
  return {address, sockets};
}

TEST_CASE("TCP keeps the transport's promises") {
  RunTransportConformance({"tcp", Make, NewPort, [](auto&&...) { return Deaf(NewPort()); }});
}

TEST_CASE("TCP over IPv6 keeps the transport's promises") {
  RunTransportConformance({"tcp", Make, NewPort6});
}

TEST_CASE("Unix sockets keep the transport's promises") {
  RunTransportConformance({"unix", Make, NewPath, [](auto&&...) { return Deaf(NewPath()); }});
}

}  // namespace
}  // namespace farcall::testing
