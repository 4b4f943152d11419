// Connections of the engine over a software NIC of the test's own, in the hands of the conformance
// suite's Arena and Peers, which check every message, every `done` and every buffer by themselves.
//
// In the guest of tests/guest/ they are over its RDMA adapter instead.

#ifndef FARCALL_TESTS_TRANSPORTS_RDMA_ENGINE_TESTING_H_
#define FARCALL_TESTS_TRANSPORTS_RDMA_ENGINE_TESTING_H_

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>

#include "farcall/tests/transports/conformance/arena.h"
#include "farcall/transports/rdma/shm.h"
#include "farcall/transports/rdma/verbs_transport.h"

namespace farcall::testing {

// In the guest: what the software NIC alone has (its faults, less inline) is not to be had.
inline bool OnVerbs() { return std::getenv("FARCALL_GUEST_DEVICE") != nullptr; }

// What the device under the engine can do, with the default options.
inline rdma::Capabilities DeviceCan() {
  return (OnVerbs() ? verbs::MakeVerbsDevice() : softnic::MakeSoftnicDevice({}))
      .value()
      ->capabilities();
}

inline Endpoint NewShmName() {
  if (OnVerbs()) {
    return ParseEndpoint(std::string("rdma://") + std::getenv("FARCALL_GUEST_ADDRESS") + ":0")
        .value();
  }
  static std::atomic<int> names = 0;
  return ParseEndpoint("shm://test-" + std::to_string(::getpid()) + "-" + std::to_string(++names))
      .value();
}

inline TransportUnderTest ShmSubject(ShmOptions options) {
  return {OnVerbs() ? "rdma" : "shm",
          [options = std::move(options)](TransportLimits limits) {
            ShmOptions with_limits = options;
            with_limits.rdma.limits = limits;
            if (!OnVerbs()) return MakeShmTransport(with_limits);
            VerbsTransportOptions verbs{.rdma = with_limits.rdma};
            verbs.rdma.resolve_timeout = verbs.rdma.connect_timeout = kPatience;
            if (!options.device.windows) verbs.rdma.isolation = RdmaIsolation::kDomain;
            return MakeVerbsTransport(verbs);
          },
          NewShmName};
}

// An arena and a connection in it.
struct Scene {
  explicit Scene(const ShmOptions& options = {}, Layout layout = Layout::kTwoLoops,
                 bool start = true)
      : subject(ShmSubject(options)),
        arena(subject, layout, options.rdma.limits),
        pair(arena.Connect(start)),
        client(pair.client),
        server(pair.server) {}

  const TransportUnderTest subject;
  Arena arena;
  Pair pair;
  Peer& client;
  Peer& server;
};

inline RdmaCounters CountersOf(const Peer& peer) {
  return RdmaCountersOf(peer.connection()).value();
}

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_TRANSPORTS_RDMA_ENGINE_TESTING_H_
