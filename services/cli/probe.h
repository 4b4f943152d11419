// Tries an address: a connection, HELLO, PING, and a larger message, each timed.

#ifndef FARCALL_SERVICES_CLI_PROBE_H_
#define FARCALL_SERVICES_CLI_PROBE_H_

#include <string>
#include <vector>

#include "farcall/rpc/clock.h"
#include "farcall/rpc/endpoint.h"

namespace farcall::cli {

struct ProbeStep {
  std::string name;  // "connect", "HELLO", "PING", "4 KiB", "1 MiB"; of auto:// "path", too
  bool ok = false;
  std::string text;         // what was seen, or the error with its remedy
  double microseconds = 0;  // of the step; of PING the median
};

// The steps up to the first that failed. Each takes `step` at most; blocks until then. It asks the
// server for nothing but what every server answers: PINGs and PROBEs. Of auto:// they go by TCP,
// and a last one looks which better path calls would go by.
std::vector<ProbeStep> Probe(const Endpoint& endpoint, Duration step);

}  // namespace farcall::cli

#endif  // FARCALL_SERVICES_CLI_PROBE_H_
