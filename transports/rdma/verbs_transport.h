// Messages over RDMA adapters: InfiniBand, RoCE and iWARP ("rdma://host:port").
//
// What travels is not encrypted and its sender is not authenticated: for networks that are trusted.
// On others TCP with TLS is the answer.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_TRANSPORT_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_TRANSPORT_H_

#include <memory>

#include "absl/status/status.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/rdma.h"
#include "farcall/transports/rdma/verbs/verbs.h"

namespace farcall {

struct VerbsTransportOptions {
  RdmaOptions rdma = {};
  verbs::VerbsOptions device = {};
};

// As MakeRdmaTransport. Never falls back to anything: without an adapter, an active port or the
// permission, Connect and Listen say which it is, and the remedy.
std::shared_ptr<Transport> MakeVerbsTransport(VerbsTransportOptions options = {});

// Why Connect of such a transport cannot reach `endpoint` from this machine, as far as that is
// known without asking anybody: INVALID_ARGUMENT, another scheme, no host, port 0 or options out of
// bounds; otherwise as verbs::MakeVerbsDevice.
absl::Status CheckVerbsEndpoint(const Endpoint& endpoint, const verbs::VerbsOptions& options = {});

}  // namespace farcall

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_TRANSPORT_H_
