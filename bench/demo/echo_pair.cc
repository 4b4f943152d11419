#include "farcall/bench/demo/echo_pair.h"

#include <utility>
#include <vector>

#include "farcall/bench/demo/echo_calls.h"
#include "farcall/bench/measure/cores.h"
#include "farcall/bench/measure/socket_options.h"
#include "farcall/rpc/mutex.h"
#include "farcall/transports/dial.h"

namespace farcall::bench {
namespace {

ProgressMode ProgressOf(Mode mode) {
  return mode == Mode::kEvent ? ProgressMode::kEvent : ProgressMode::kBusy;
}

// Threads that start while this lives run on `core`; afterwards this thread is back where it was.
class StartThreadsOn {
 public:
  explicit StartThreadsOn(std::optional<int> core) {
    if (!core) return;
    home_ = AllowedCores();
    status_ = PinThisThread(*core);
  }
  ~StartThreadsOn() {
    if (!home_.empty()) PinThisThread(home_.front()).IgnoreError();  // it could run there before
  }
  StartThreadsOn(const StartThreadsOn&) = delete;
  StartThreadsOn& operator=(const StartThreadsOn&) = delete;

  const absl::Status& status() const { return status_; }

 private:
  std::vector<int> home_;
  absl::Status status_;
};

// More than the calls that follow each other until everything repeats itself: credits, completions.
constexpr size_t kSmallCalls = 1000;
constexpr size_t kLargeCalls = 150;

}  // namespace

// Another transport, which remembers the connections that it made: those of a channel and those of
// a server.
class WatchedTransport final : public Transport {
 public:
  explicit WatchedTransport(std::shared_ptr<Transport> inner) : inner_(std::move(inner)) {}

  std::unique_ptr<PendingConnect> Connect(EventLoop& loop, const Endpoint& endpoint,
                                          TimePoint deadline, ConnectDone done) override {
    return inner_->Connect(
        loop, endpoint, deadline,
        [this, done = std::move(done)](absl::StatusOr<std::unique_ptr<Connection>> made) mutable {
          if (made.ok()) Watch(**made);
          done(std::move(made));
        });
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint,
                                                   std::vector<EventLoop*> loops,
                                                   Acceptor acceptor) override {
    return inner_->Listen(endpoint, std::move(loops),
                          [this, acceptor = std::move(acceptor)](
                              EventLoop& loop, std::unique_ptr<Connection> connection) {
                            Watch(*connection);
                            acceptor(loop, std::move(connection));
                          });
  }
  std::vector<std::shared_ptr<BufferPool>> pools() const override { return inner_->pools(); }

  // Those that were ever made; the caller knows which of them are still there.
  std::vector<const Connection*> connections() const {
    MutexLock lock(mutex_);
    return connections_;
  }

 private:
  void Watch(const Connection& connection) {
    MutexLock lock(mutex_);
    connections_.push_back(&connection);
  }

  const std::shared_ptr<Transport> inner_;
  mutable Mutex mutex_;
  std::vector<const Connection*> connections_ ABSL_GUARDED_BY(mutex_);
};

// Of both connections together.
struct EchoPair::Totals {
  uint64_t copied_bytes = 0, send_calls = 0, receive_calls = 0;
  std::optional<RdmaCounters> rdma;
};

absl::StatusOr<std::unique_ptr<EchoPair>> EchoPair::Make(const std::string& address, Mode mode,
                                                         std::optional<int> server_core) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return endpoint.status();
  TransportOptions options;
  options.tcp.congestion_control = kCongestionControl;
  absl::StatusOr<std::shared_ptr<Transport>> transport = TransportFor(*endpoint, options);
  if (!transport.ok()) return transport.status();
  std::unique_ptr<EchoPair> pair(new EchoPair);
  pair->transport_ = std::make_shared<WatchedTransport>(*std::move(transport));
  absl::StatusOr<Endpoint> bound;
  {
    const StartThreadsOn there(server_core);
    if (!there.status().ok()) return there.status();
    pair->server_.emplace(ServerOptions{.mode = ProgressOf(mode)});
    absl::Status added = pair->server_->Add(services::Echo::Bind(pair->echo_));
    if (!added.ok()) return added;
    bound = pair->server_->Listen(pair->transport_, *endpoint);
    if (!bound.ok()) return bound.status();
  }
  absl::StatusOr<Channel> channel =
      Channel::Create(pair->transport_, *bound, {.mode = ProgressOf(mode)});
  if (!channel.ok()) return channel.status();
  pair->channel_.emplace(*std::move(channel));
  return pair;
}

absl::StatusOr<EchoPair::Totals> EchoPair::Read() const {
  const absl::Status lost =
      absl::UnavailableError("the connection was lost while its operations were counted");
  const auto both_there = [this] {
    return channel_->info().state == ChannelInfo::State::kReady &&
           server_->metrics().connections.size() == 1;
  };
  const std::vector<const Connection*> connections = transport_->connections();
  if (connections.size() != 2 || !both_there()) return lost;
  Totals totals;
  for (const Connection* connection : connections) {
    const ConnectionCounters counters = connection->info().counters;
    totals.copied_bytes += counters.payload_bytes_copied;
    totals.send_calls += counters.send_calls;
    totals.receive_calls += counters.receive_calls;
    const std::optional<RdmaCounters> of_this = RdmaCountersOf(*connection);
    if (!of_this) continue;
    if (!totals.rdma) totals.rdma.emplace();
    totals.rdma->sends += of_this->sends;
    totals.rdma->reads += of_this->reads;
    totals.rdma->doorbells += of_this->doorbells;
    totals.rdma->signaled += of_this->signaled;
    totals.rdma->registrations += of_this->registrations;
  }
  // Under the lock that the server's loop takes before it destroys one.
  if (!both_there()) return lost;
  return totals;
}

absl::StatusOr<Costs> EchoPair::CountOperations(const Workload& workload) {
  absl::StatusOr<EchoCalls> calls = EchoCalls::Make(*channel_, workload);
  if (!calls.ok()) return calls.status();
  const size_t number = workload.bytes <= kMaxDataBytes ? kSmallCalls : kLargeCalls;
  uint64_t next_call = 1;
  const auto make = [&](size_t more) {
    absl::Status status;
    for (size_t i = 0; i < more && status.ok(); ++i) status = calls->Call(next_call++);
    return status;
  };
  if (absl::Status warm = make(number / 4); !warm.ok()) return warm;
  const absl::StatusOr<Totals> before = Read();
  if (!before.ok()) return before.status();
  if (absl::Status made = make(number); !made.ok()) return made;
  const absl::StatusOr<Totals> after = Read();
  if (!after.ok()) return after.status();
  const auto per_call = [number](uint64_t now, uint64_t then) {
    return static_cast<double>(now - then) / static_cast<double>(number);
  };
  Costs costs;
  costs.copied_bytes = per_call(after->copied_bytes, before->copied_bytes);
  costs.send_calls = per_call(after->send_calls, before->send_calls);
  costs.receive_calls = per_call(after->receive_calls, before->receive_calls);
  if (!after->rdma || !before->rdma) return costs;
  costs.sends = per_call(after->rdma->sends, before->rdma->sends);
  costs.reads = per_call(after->rdma->reads, before->rdma->reads);
  costs.doorbells = per_call(after->rdma->doorbells, before->rdma->doorbells);
  costs.signalled = per_call(after->rdma->signaled, before->rdma->signaled);
  costs.registrations = per_call(after->rdma->registrations, before->rdma->registrations);
  return costs;
}

}  // namespace farcall::bench
