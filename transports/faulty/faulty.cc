#include "farcall/transports/faulty/faulty.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/mutex.h"
#include "farcall/transports/faulty/connecting.h"
#include "farcall/transports/faulty/connection.h"
#include "farcall/transports/faulty/dice.h"

namespace farcall {
namespace {

using faulty::Connecting;
using faulty::Dice;
using faulty::FaultyConnection;

// What connections and connects share; outlives the transport with them. Thread-safe.
class Fate {
 public:
  Fate(FaultPlan plan, uint64_t seed) : plan_(plan), seed_(seed), dice_(seed) {}

  struct Connect {
    bool refused = false;
    Duration delay{};
  };
  Connect NextConnect() {
    MutexLock lock(mutex_);
    return {.refused = dice_.Happens(plan_.refuse_connect), .delay = dice_.Wait(plan_.connect)};
  }

  std::unique_ptr<Connection> Wrap(EventLoop& loop, std::unique_ptr<Connection> inner) {
    uint64_t number = 0;
    {
      MutexLock lock(mutex_);
      number = ++connections_;
    }
    return std::make_unique<FaultyConnection>(loop, std::move(inner), plan_,
                                              faulty::Origin{seed_, number});
  }

  uint64_t seed() const { return seed_; }

 private:
  const FaultPlan plan_;
  const uint64_t seed_;
  Mutex mutex_;
  Dice dice_ ABSL_GUARDED_BY(mutex_);
  uint64_t connections_ ABSL_GUARDED_BY(mutex_) = 0;
};

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::shared_ptr<Transport> inner, FaultPlan plan, uint64_t seed)
      : inner_(std::move(inner)), fate_(std::make_shared<Fate>(plan, seed)) {}

  std::unique_ptr<PendingConnect> Connect(EventLoop& loop, const Endpoint& endpoint,
                                          TimePoint deadline, ConnectDone done) override {
    auto connecting = std::make_unique<Connecting>(
        loop,
        [fate = fate_, &loop](std::unique_ptr<Connection> inner) {
          return fate->Wrap(loop, std::move(inner));
        },
        std::move(done));
    const auto ask = [inner = inner_, &loop, endpoint, deadline](ConnectDone inner_done) {
      return inner->Connect(loop, endpoint, deadline, std::move(inner_done));
    };
    const Fate::Connect fate = fate_->NextConnect();
    const TimePoint when = After(loop.now(), fate.delay);
    if (when >= deadline) {
      connecting->FailAt(deadline, absl::DeadlineExceededError(absl::StrCat(
                                       endpoint.ToString(), ": no answer before the deadline")));
    } else if (fate.refused) {
      connecting->FailAt(when, absl::UnavailableError(absl::StrCat(
                                   endpoint.ToString(), ": refused by the fault plan (seed ",
                                   fate_->seed(), ")")));
    } else if (fate.delay > Duration::zero()) {
      connecting->AskAt(when, ask);
    } else {
      connecting->AskNow(ask);
    }
    return connecting;
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint,
                                                   std::vector<EventLoop*> loops,
                                                   Acceptor acceptor) override {
    return inner_->Listen(endpoint, std::move(loops),
                          [fate = fate_, acceptor = std::move(acceptor)](
                              EventLoop& loop, std::unique_ptr<Connection> connection) {
                            acceptor(loop, fate->Wrap(loop, std::move(connection)));
                          });
  }

 private:
  const std::shared_ptr<Transport> inner_;
  const std::shared_ptr<Fate> fate_;
};

}  // namespace

std::shared_ptr<Transport> MakeFaultyTransport(std::shared_ptr<Transport> inner, FaultPlan plan,
                                               uint64_t seed) {
  return std::make_shared<FaultyTransport>(std::move(inner), plan, seed);
}

}  // namespace farcall
