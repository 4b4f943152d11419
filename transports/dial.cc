#include "farcall/transports/dial.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farcall {
namespace {

enum class Kind { kTcp, kLoopback, kShm, kRdma, kAuto, kUnknown };

Kind KindOf(const Endpoint& endpoint) {
  if (endpoint.scheme == "tcp" || endpoint.scheme == "unix") return Kind::kTcp;
  if (endpoint.scheme == "loopback") return Kind::kLoopback;
  if (endpoint.scheme == "shm") return Kind::kShm;
  if (endpoint.scheme == "rdma") return Kind::kRdma;
  if (endpoint.scheme == "auto") return Kind::kAuto;
  return Kind::kUnknown;
}

absl::Status NotServed(const Endpoint& endpoint) {
  return absl::InvalidArgumentError(
      absl::StrCat(endpoint.ToString(),
                   ": unknown scheme; there are tcp://, unix://, rdma://, shm://, loopback:// and "
                   "auto://"));
}

// auto:// is reached by TCP first.
Endpoint OverTcp(Endpoint endpoint) {
  endpoint.scheme = "tcp";
  return endpoint;
}

// Why it can never be reached from here.
absl::Status Check(const Endpoint& endpoint, const verbs::VerbsOptions& adapter) {
  switch (KindOf(endpoint)) {
    case Kind::kTcp:
      return CheckTcpEndpoint(endpoint);
    case Kind::kAuto:
      return CheckTcpEndpoint(OverTcp(endpoint));
    case Kind::kShm:
      return CheckShmEndpoint(endpoint);
    case Kind::kRdma:
      return CheckVerbsEndpoint(endpoint, adapter);
    default:
      return absl::OkStatus();
  }
}

absl::StatusOr<Channel> DialThrough(const absl::StatusOr<std::shared_ptr<Transport>>& transport,
                                    const Endpoint& endpoint, ChannelOptions options,
                                    const verbs::VerbsOptions& adapter) {
  if (!transport.ok()) return transport.status();
  if (absl::Status checked = Check(endpoint, adapter); !checked.ok()) return checked;
  return Channel::Create(*transport, endpoint, std::move(options));
}

absl::StatusOr<Endpoint> ListenThrough(Server& server,
                                       const absl::StatusOr<std::shared_ptr<Transport>>& transport,
                                       const Endpoint& endpoint) {
  if (!transport.ok()) return transport.status();
  return server.Listen(*transport, endpoint);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Transport>> TransportFor(const Endpoint& endpoint) {
  // Never destroyed: channels of static lifetime may outlive any other order.
  static const auto* tcp = new std::shared_ptr<Transport>(MakeTcpTransport());
  static const auto* loopback = new std::shared_ptr<Transport>(MakeLoopbackTransport());
  static const auto* shm = new std::shared_ptr<Transport>(MakeShmTransport());
  static const auto* rdma = new std::shared_ptr<Transport>(MakeVerbsTransport());
  static const auto* best =
      new std::shared_ptr<Transport>(MakeAutoTransport({.tcp = *tcp, .shm = *shm, .rdma = *rdma}));
  switch (KindOf(endpoint)) {
    case Kind::kTcp:
      return *tcp;
    case Kind::kLoopback:
      return *loopback;
    case Kind::kShm:
      return *shm;
    case Kind::kRdma:
      return *rdma;
    case Kind::kAuto:
      return *best;
    default:
      return NotServed(endpoint);
  }
}

absl::StatusOr<std::shared_ptr<Transport>> TransportFor(const Endpoint& endpoint,
                                                        const TransportOptions& options) {
  switch (KindOf(endpoint)) {
    case Kind::kTcp:
      return MakeTcpTransport(options.tcp);
    case Kind::kLoopback:
      return MakeLoopbackTransport(options.loopback);
    case Kind::kShm:
      return MakeShmTransport(options.shm);
    case Kind::kRdma:
      return MakeVerbsTransport(options.rdma);
    case Kind::kAuto:
      return MakeAutoTransport(
          {.tcp = MakeTcpTransport(options.tcp),
           .shm = options.auto_paths.shm ? MakeShmTransport(options.shm) : nullptr,
           .rdma = options.auto_paths.rdma ? MakeVerbsTransport(options.rdma) : nullptr,
           .rdma_host = options.auto_paths.rdma_host});
    default:
      return NotServed(endpoint);
  }
}

absl::StatusOr<Channel> Dial(std::string_view address, ChannelOptions options) {
  absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return endpoint.status();
  return DialThrough(TransportFor(*endpoint), *endpoint, std::move(options), {});
}

absl::StatusOr<Channel> Dial(std::string_view address, ChannelOptions options,
                             const TransportOptions& transport_options) {
  absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return endpoint.status();
  return DialThrough(TransportFor(*endpoint, transport_options), *endpoint, std::move(options),
                     transport_options.rdma.device);
}

absl::StatusOr<Endpoint> Listen(Server& server, std::string_view address) {
  absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return endpoint.status();
  return ListenThrough(server, TransportFor(*endpoint), *endpoint);
}

absl::StatusOr<Endpoint> Listen(Server& server, std::string_view address,
                                const TransportOptions& transport_options) {
  absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return endpoint.status();
  return ListenThrough(server, TransportFor(*endpoint, transport_options), *endpoint);
}

}  // namespace farcall
