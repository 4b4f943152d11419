// Where farcall_demo_server listens, for it and for who calls it.
#ifndef FARCALL_BENCH_DEMO_REMOTE_H_
#define FARCALL_BENCH_DEMO_REMOTE_H_

#include <string>

#include "farcall/bench/demo/farcall_subject.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// The first of four: TCP's two, then RDMA's, each for event and for busy. Over iWARP RDMA's ports
// are TCP's.
inline constexpr int kFirstPort = 7801;

// "rdma://10.0.0.7:7804"; `host` is a name or an address, IPv6 in brackets.
inline std::string RemoteAddress(Scheme scheme, const std::string& host, Mode mode) {
  const int port = kFirstPort + (scheme == Scheme::kRdma ? 2 : 0) + (mode == Mode::kBusy ? 1 : 0);
  return std::string(TransportOf(scheme)) + "://" + host + ":" + std::to_string(port);
}

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_REMOTE_H_
