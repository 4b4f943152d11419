#include "farcall/transports/auto/auto.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "farcall/transports/auto/listener.h"
#include "farcall/transports/auto/selector.h"

namespace farcall {
namespace {

class AutoTransport final : public Transport {
 public:
  explicit AutoTransport(AutoOptions options) : options_(std::move(options)) {}

  std::unique_ptr<PendingConnect> Connect(EventLoop& loop, const Endpoint& endpoint,
                                          TimePoint deadline, ConnectDone done) override {
    return options_.tcp->Connect(loop, OverTcp(endpoint), deadline, std::move(done));
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint,
                                                   std::vector<EventLoop*> loops,
                                                   Acceptor acceptor) override {
    return paths::StartListening(endpoint, std::move(loops), std::move(acceptor), options_);
  }

  std::unique_ptr<PathSelector> MakePathSelector() override {
    return std::make_unique<paths::Selector>(
        std::vector<paths::Member>{{"shm", options_.shm}, {"rdma", options_.rdma}});
  }

  std::vector<std::shared_ptr<BufferPool>> pools() const override {
    std::vector<std::shared_ptr<BufferPool>> pools = options_.tcp->pools();
    for (const auto& member : {options_.shm, options_.rdma}) {
      if (member == nullptr) continue;
      for (std::shared_ptr<BufferPool>& pool : member->pools()) pools.push_back(std::move(pool));
    }
    return pools;
  }

 private:
  // Another scheme than auto:// is TCP's to refuse.
  static Endpoint OverTcp(Endpoint endpoint) {
    if (endpoint.scheme == "auto") endpoint.scheme = "tcp";
    return endpoint;
  }

  const AutoOptions options_;
};

}  // namespace

std::shared_ptr<Transport> MakeAutoTransport(AutoOptions options) {
  return std::make_shared<AutoTransport>(std::move(options));
}

}  // namespace farcall
