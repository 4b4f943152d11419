// The promises, by topic; each file of cases lists its own.

#ifndef FARCALL_TESTS_TRANSPORTS_CONFORMANCE_CASES_H_
#define FARCALL_TESTS_TRANSPORTS_CONFORMANCE_CASES_H_

#include <span>

#include "farcall/rpc/transport.h"
#include "farcall/tests/transports/conformance/arena.h"

namespace farcall::testing {

struct Case {
  const char* name;
  void (*run)(Arena& arena);
  TransportLimits limits = {};
};

std::span<const Case> ContentCases();     // whole and once, every size
std::span<const Case> OrderCases();       // heads in order, small before large
std::span<const Case> SendingCases();     // queues, Withdraw
std::span<const Case> ReceivingCases();   // Start, Admit, Abandon
std::span<const Case> ClosingCases();     // Close, destruction, vanishing peers
std::span<const Case> UserMemoryCases();  // attachments from and into memory of the user's own
std::span<const Case> ConnectingCases();  // Connect, Listen, many loops

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_TRANSPORTS_CONFORMANCE_CASES_H_
