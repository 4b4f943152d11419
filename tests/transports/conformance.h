// What rpc/transport.h promises, as tests that every transport passes.
//
// A transport's own test names it and calls RunTransportConformance from one TEST_CASE. Each
// promise is run on one loop and on two that the test steps by hand, and on two loops with threads
// of their own. `-c "<layout>" -c "<case>"` picks one.

#ifndef FARCALL_TESTS_TRANSPORTS_CONFORMANCE_H_
#define FARCALL_TESTS_TRANSPORTS_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/transport.h"

namespace farcall::testing {

struct TransportUnderTest {
  std::string name;  // as ConnectionInfo::transport says it

  // A fresh transport that keeps these limits.
  std::function<std::shared_ptr<Transport>(TransportLimits)> make;

  // An address to listen on that nobody uses: another one with each call, or one like port 0.
  std::function<Endpoint()> listen_endpoint;

  // Optional: an address where a connect gets no answer at all, and what keeps it so. Nobody drives
  // `loop`.
  std::function<std::pair<Endpoint, std::shared_ptr<void>>(Transport& transport, EventLoop& loop)>
      silent_endpoint = nullptr;
};

void RunTransportConformance(const TransportUnderTest& subject);

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_TRANSPORTS_CONFORMANCE_H_
