#include "farcall/transports/loopback/loopback.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/loopback/accepting.h"
#include "farcall/transports/loopback/connecting.h"
#include "farcall/transports/loopback/network.h"

namespace farcall {
namespace {

using loopback::Accepting;
using loopback::Connecting;

const std::shared_ptr<LoopbackNetwork>& NetworkOfTheProcess() {
  static const auto& network = *new std::shared_ptr(MakeLoopbackNetwork());
  return network;
}

absl::Status CheckName(const Endpoint& endpoint) {
  if (endpoint.scheme == "loopback" && !endpoint.path.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", endpoint.ToString(), "': want loopback://name"));
}

class Handle final : public Transport::PendingConnect {
 public:
  explicit Handle(std::shared_ptr<Connecting> connecting) : connecting_(std::move(connecting)) {}
  ~Handle() override { connecting_->Cancel(); }

 private:
  const std::shared_ptr<Connecting> connecting_;
};

class LoopbackListener final : public Listener {
 public:
  LoopbackListener(Endpoint address, std::shared_ptr<LoopbackNetwork> network,
                   std::shared_ptr<Accepting> accepting)
      : address_(std::move(address)),
        network_(std::move(network)),
        accepting_(std::move(accepting)) {}
  ~LoopbackListener() override { Stop(); }

  Endpoint address() const override { return address_; }

  void Stop() override {
    network_->Remove(address_.path, accepting_.get());
    accepting_->Stop();
  }

 private:
  const Endpoint address_;
  const std::shared_ptr<LoopbackNetwork> network_;
  const std::shared_ptr<Accepting> accepting_;
};

class LoopbackTransport final : public Transport {
 public:
  explicit LoopbackTransport(LoopbackOptions options) : options_(std::move(options)) {
    if (options_.network == nullptr) options_.network = NetworkOfTheProcess();
    if (options_.pool == nullptr) {
      options_.pool = std::make_shared<BufferPool>(BufferPoolOptions{.name = "loopback"});
    }
  }

  std::unique_ptr<PendingConnect> Connect(EventLoop& loop, const Endpoint& endpoint,
                                          TimePoint deadline, ConnectDone done) override {
    const std::string address = endpoint.ToString();
    auto connecting = std::make_shared<Connecting>(
        loop,
        loopback::EndOptions{.pool = options_.pool,
                             .limits = options_.limits,
                             .local_address = options_.network->NewClientAddress(endpoint.path),
                             .peer_address = address},
        std::move(done));
    auto handle = std::make_unique<Handle>(connecting);
    if (absl::Status status = CheckName(endpoint); !status.ok()) {
      connecting->Fail(std::move(status));
      return handle;
    }
    if (deadline <= loop.now()) {
      connecting->Fail(absl::DeadlineExceededError(
          absl::StrCat(address, ": the deadline had passed before connecting")));
      return handle;
    }
    const std::shared_ptr<Accepting> accepting = options_.network->Find(endpoint.path);
    if (accepting == nullptr) {
      connecting->Fail(absl::UnavailableError(
          absl::StrCat(address, ": nobody in this process listens under this name")));
      return handle;
    }
    connecting->SetDeadline(deadline);
    accepting->Accept(std::move(connecting));
    return handle;
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint,
                                                   std::vector<EventLoop*> loops,
                                                   Acceptor acceptor) override {
    absl::Status status = CheckName(endpoint);
    if (status.ok() && (loops.empty() || !acceptor)) {
      status = absl::InvalidArgumentError(
          absl::StrCat(endpoint.ToString(), ": listening takes a loop and an acceptor"));
    }
    if (!status.ok()) return status;
    auto accepting =
        std::make_shared<Accepting>(loopback::EndOptions{.pool = options_.pool,
                                                         .limits = options_.limits,
                                                         .local_address = endpoint.ToString(),
                                                         .peer_address = {}},
                                    std::move(loops), std::move(acceptor));
    if (status = options_.network->Add(endpoint.path, accepting); !status.ok()) return status;
    return std::make_unique<LoopbackListener>(endpoint, options_.network, std::move(accepting));
  }

  std::vector<std::shared_ptr<BufferPool>> pools() const override { return {options_.pool}; }

 private:
  LoopbackOptions options_;  // constant after construction
};

}  // namespace

std::shared_ptr<Transport> MakeLoopbackTransport(LoopbackOptions options) {
  return std::make_shared<LoopbackTransport>(std::move(options));
}

}  // namespace farcall
