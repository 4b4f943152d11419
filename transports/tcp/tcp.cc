#include "farcall/transports/tcp/tcp.h"

#include <utility>
#include <vector>

#include "farcall/transports/tcp/address.h"
#include "farcall/transports/tcp/connector.h"
#include "farcall/transports/tcp/limits.h"
#include "farcall/transports/tcp/listener.h"

namespace farcall {
namespace {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(std::shared_ptr<const tcp::Settings> settings)
      : settings_(std::move(settings)) {}

  std::unique_ptr<PendingConnect> Connect(EventLoop& loop, const Endpoint& endpoint,
                                          TimePoint deadline, ConnectDone done) override {
    return tcp::StartConnect(loop, endpoint, deadline, std::move(done), settings_);
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint,
                                                   std::vector<EventLoop*> loops,
                                                   Acceptor acceptor) override {
    return tcp::StartListening(endpoint, std::move(loops), std::move(acceptor), settings_);
  }

  std::vector<std::shared_ptr<BufferPool>> pools() const override {
    return {settings_->pools.send, settings_->pools.receive};
  }

 private:
  const std::shared_ptr<const tcp::Settings> settings_;
};

std::shared_ptr<BufferPool> MakePool(const char* name, const char* option, size_t bytes) {
  return std::make_shared<BufferPool>(BufferPoolOptions{.name = name,
                                                        .option = option,
                                                        .max_bytes = bytes,
                                                        .small_bytes = bytes / tcp::kSmallShare,
                                                        .max_cached_bytes = bytes / 2});
}

}  // namespace

absl::Status CheckTcpEndpoint(const Endpoint& endpoint) {
  return tcp::CheckEndpoint(endpoint, /*connecting=*/true);
}

std::shared_ptr<Transport> MakeTcpTransport(TcpOptions options) {
  auto settings = std::make_shared<tcp::Settings>();
  settings->pools.send =
      MakePool("tcp send", "TcpOptions::send_pool_bytes", options.send_pool_bytes);
  settings->pools.receive =
      MakePool("tcp receive", "TcpOptions::receive_pool_bytes", options.receive_pool_bytes);
  settings->options = std::move(options);
  return std::make_shared<TcpTransport>(std::move(settings));
}

}  // namespace farcall
