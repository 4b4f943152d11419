#include "farcall/transports/rdma/verbs_transport.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/settings.h"

namespace farcall {
namespace {

constexpr char kScheme[] = "rdma";

}  // namespace

std::shared_ptr<Transport> MakeVerbsTransport(VerbsTransportOptions options) {
  return MakeRdmaTransport(
      kScheme, [device = std::move(options.device)] { return verbs::MakeVerbsDevice(device); },
      options.rdma);
}

absl::Status CheckVerbsEndpoint(const Endpoint& endpoint, const verbs::VerbsOptions& options) {
  absl::Status scheme = rdma::CheckScheme(endpoint, kScheme);
  if (!scheme.ok()) return scheme;
  if (endpoint.host.empty() || endpoint.port == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        endpoint.ToString(), ": an RDMA address to connect to is rdma://host:port, not port 0"));
  }
  absl::Status device = verbs::MakeVerbsDevice(options).status();
  if (device.ok()) return device;
  return absl::Status(device.code(), absl::StrCat(endpoint.ToString(), ": ", device.message()));
}

}  // namespace farcall
