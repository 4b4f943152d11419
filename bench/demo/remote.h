// Where farcall_demo_server listens, for it and for who calls it.
#ifndef FARCALL_BENCH_DEMO_REMOTE_H_
#define FARCALL_BENCH_DEMO_REMOTE_H_

#include <string>

#include "farcall/bench/demo/farcall_subject.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// TCP and RDMA have the same numbers: they are no neighbours.
inline constexpr int kEventPort = 7801;
inline constexpr int kBusyPort = 7802;

// "rdma://10.0.0.7:7802"; `host` is a name or an address, IPv6 in brackets.
inline std::string RemoteAddress(Scheme scheme, const std::string& host, Mode mode) {
  return std::string(TransportOf(scheme)) + "://" + host + ":" +
         std::to_string(mode == Mode::kEvent ? kEventPort : kBusyPort);
}

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_REMOTE_H_
