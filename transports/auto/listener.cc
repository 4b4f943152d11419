#include "farcall/transports/auto/listener.h"

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/log.h"
#include "farcall/transports/auto/bindings.h"
#include "farcall/transports/auto/offer.h"

namespace farcall::paths {
namespace {

// A path beside TCP, as it is offered.
struct Door {
  std::string name;
  std::string reason = {};  // why there is none; empty: there is
  Endpoint address = {};
  bool by_interface = false;  // the host is that of the interface a caller came in by
  std::unique_ptr<Listener> listener = {};
};

bool IsAnyHost(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// What the connections of TCP, or of one path, are told of the others.
class Host final : public PathHost {
 public:
  // `name` is empty for TCP, which has all the doors; they are complete before it accepts.
  Host(std::shared_ptr<Bindings> bindings, std::string name,
       std::shared_ptr<const std::vector<Door>> doors)
      : bindings_(std::move(bindings)), name_(std::move(name)), doors_(std::move(doors)) {}

  absl::StatusOr<uint64_t> Enter(const ConnectionInfo& /*over*/, std::string_view token,
                                 EndPath end, TimePoint now) override {
    if (!name_.empty()) return bindings_->EnterPath(name_, token, std::move(end), now);
    if (token.empty()) return bindings_->EnterMain();
    return absl::PermissionDeniedError("a token on the connection that it would have come from");
  }

  std::vector<PathOffer> Offer(uint64_t session, const ConnectionInfo& over,
                               TimePoint now) override {
    std::vector<PathOffer> offers;
    if (doors_ == nullptr) return offers;
    bindings_->VoidTokens(session);
    for (const Door& door : *doors_) {
      offers.push_back({door.name, EncodeOffer(OfferOf(door, session, over, now))});
    }
    return offers;
  }

  size_t Paths(uint64_t session) const override { return bindings_->Paths(session); }
  void Leave(uint64_t session) override { bindings_->Leave(session); }

 private:
  paths::Offer OfferOf(const Door& door, uint64_t session, const ConnectionInfo& over,
                       TimePoint now) const {
    if (!door.reason.empty()) return {.reason = door.reason};
    Endpoint address = door.address;
    if (door.by_interface) {
      const absl::StatusOr<Endpoint> local = ParseEndpoint(over.local_address);
      if (!local.ok() || local->host.empty()) {
        return {.reason = "the address that the caller came in by is not known"};
      }
      address.host = local->host;
    }
    absl::StatusOr<std::string> token = bindings_->NewToken(session, door.name, now);
    if (!token.ok()) return {.reason = std::string(token.status().message())};
    return {.endpoint = std::move(address), .token = *std::move(token)};
  }

  const std::shared_ptr<Bindings> bindings_;
  const std::string name_;
  const std::shared_ptr<const std::vector<Door>> doors_;
};

class AutoListener final : public Listener {
 public:
  AutoListener(std::string scheme, std::unique_ptr<Listener> tcp,
               std::vector<std::unique_ptr<Listener>> beside)
      : scheme_(std::move(scheme)), tcp_(std::move(tcp)), beside_(std::move(beside)) {}
  ~AutoListener() override { Stop(); }

  Endpoint address() const override {
    Endpoint address = tcp_->address();
    address.scheme = scheme_;
    return address;
  }
  void Stop() override {
    tcp_->Stop();
    for (const auto& listener : beside_) listener->Stop();
  }

 private:
  const std::string scheme_;  // as it was asked for
  const std::unique_ptr<Listener> tcp_;
  const std::vector<std::unique_ptr<Listener>> beside_;
};

Transport::Acceptor With(std::shared_ptr<PathHost> host, Transport::Acceptor acceptor) {
  return [host = std::move(host), acceptor = std::move(acceptor)](
             EventLoop& loop, std::unique_ptr<Connection> connection) {
    connection->SetPathHost(host);
    acceptor(loop, std::move(connection));
  };
}

Endpoint InSharedMemory(std::string name) {
  return {.scheme = "shm", .host = {}, .port = 0, .path = std::move(name)};
}

// A name that nobody has taken.
absl::StatusOr<Endpoint> RandomName() {
  absl::StatusOr<std::string> random = RandomBytes(kTokenBytes);
  if (!random.ok()) return random.status();
  return InSharedMemory(absl::StrCat("auto-", absl::BytesToHexString(*random)));
}

// What was asked of all members.
struct Asked {
  const std::vector<EventLoop*>& loops;
  const Transport::Acceptor& acceptor;
  const std::shared_ptr<Bindings>& bindings;
};

Door Open(Door door, const std::shared_ptr<Transport>& transport,
          const absl::StatusOr<Endpoint>& at, const Asked& asked) {
  if (transport == nullptr) {
    door.reason = "left out by its options (AutoOptions)";
    return door;
  }
  absl::Status opened = at.status();
  if (opened.ok()) {
    auto host = std::make_shared<Host>(asked.bindings, door.name, nullptr);
    auto listener = transport->Listen(*at, asked.loops, With(std::move(host), asked.acceptor));
    opened = listener.status();
    if (listener.ok()) door.listener = *std::move(listener);
  }
  if (opened.ok()) {
    door.address = door.listener->address();
  } else {
    door.reason = std::string(opened.message());
  }
  return door;
}

// By the port where there is one: a server that was killed leaves its name behind, and takes it
// again when it is started again. On another interface the same port may have it already.
Door OpenSharedMemory(const std::shared_ptr<Transport>& transport, uint16_t port,
                      const Asked& asked) {
  if (port != 0) {
    Door door =
        Open({.name = "shm"}, transport, InSharedMemory(absl::StrCat("auto-", port)), asked);
    if (door.listener != nullptr) return door;
  }
  return Open({.name = "shm"}, transport, RandomName(), asked);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> StartListening(const Endpoint& endpoint,
                                                         std::vector<EventLoop*> loops,
                                                         Transport::Acceptor acceptor,
                                                         const AutoOptions& options) {
  if (loops.empty() || acceptor == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(endpoint.ToString(), ": Listen needs a loop and an acceptor"));
  }
  const auto bindings = std::make_shared<Bindings>();
  const Asked asked{loops, acceptor, bindings};
  auto doors = std::make_shared<std::vector<Door>>();
  doors->push_back(OpenSharedMemory(options.shm, endpoint.port, asked));
  const bool told = !options.rdma_host.empty();
  const Endpoint rdma{
      .scheme = "rdma", .host = told ? options.rdma_host : endpoint.host, .port = 0, .path = {}};
  doors->push_back(Open({.name = "rdma"}, options.rdma, rdma, asked));
  doors->back().by_interface = IsAnyHost(doors->back().address.host);
  std::vector<std::unique_ptr<Listener>> beside;
  for (Door& door : *doors) {
    if (door.listener != nullptr) {
      beside.push_back(std::move(door.listener));
    } else {
      Log(LogLevel::kInfo,
          absl::StrCat("auto: callers are offered no ", door.name, ": ", door.reason));
    }
  }
  Endpoint tcp = endpoint;
  if (tcp.scheme == "auto") tcp.scheme = "tcp";  // another one is TCP's to refuse
  auto host = std::make_shared<Host>(bindings, "", std::move(doors));
  auto listener =
      options.tcp->Listen(tcp, std::move(loops), With(std::move(host), std::move(acceptor)));
  if (!listener.ok()) return listener.status();
  return std::make_unique<AutoListener>(endpoint.scheme, *std::move(listener), std::move(beside));
}

}  // namespace farcall::paths
