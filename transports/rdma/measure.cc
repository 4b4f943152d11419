#include "farcall/transports/rdma/measure.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/settings.h"

namespace farcall {
namespace {

// When a sample of each size and road takes as little as it does on a quick device, enough is known
// before that.
constexpr Duration kEnough = std::chrono::milliseconds(100);
// A median of fewer says nothing.
constexpr size_t kFewestSamples = 5;
// A sample is so many messages, one after the other: more than the clock's own cost.
constexpr int kMessagesPerSample = 4;
// The head of a small call.
constexpr size_t kHeadBytes = 32;

constexpr uint32_t kSmallest = 64;

// Tells somebody of every message, and lets go of it.
class Ear final : public Receiver {
 public:
  explicit Ear(std::function<void()> heard) : heard_(std::move(heard)) {}

  Admission Admit(Ticket, std::span<const std::byte>, MessageSizes) override { return {}; }
  void OnMessage(Ticket, Message&&) override { heard_(); }
  void OnAbandoned(Ticket, absl::Status status) override { failure_ = std::move(status); }
  void OnClosed(absl::Status status) override { failure_ = std::move(status); }

  const absl::Status& failure() const { return failure_; }

 private:
  const std::function<void()> heard_;
  absl::Status failure_;
};

absl::Status TooSlow() {
  return absl::DeadlineExceededError(
      "the device, or this machine, was too slow for a threshold to be measured in time");
}

// A loop in this thread's hands, and the time that is left.
class Bench {
 public:
  explicit Bench(Duration at_most)
      : at_most_(at_most), loop_({.mode = ProgressMode::kBusy, .helper_thread = false}) {}

  EventLoop& loop() { return loop_; }
  TimePoint deadline() const { return After(start_, at_most_); }
  Duration spent() const { return Clock::Steady().Now() - start_; }

  // Drives until `done`; false: the time is over.
  template <class Done>
  bool RunUntil(Done done) {
    while (!done()) {
      if (spent() >= at_most_) return false;
      loop_.RunOnce();
    }
    return true;
  }
  // Runs `work` as the loop's driver, whatever the time is.
  template <class Work>
  void On(Work work) {
    ran_ = false;
    loop_.Post([&] {
      work();
      ran_ = true;
    });
    while (!ran_) loop_.RunOnce();
  }

 private:
  const TimePoint start_ = Clock::Steady().Now();
  const Duration at_most_;
  bool ran_ = false;  // what On posted
  EventLoop loop_;
};

// One road: a connection of this process to itself whose messages all take it.
class Road {
 public:
  static constexpr char kScheme[] = "measure";

  Road(Bench& bench, const RdmaDeviceFactory& device, RdmaOptions options, uint32_t threshold)
      : bench_(bench) {
    options.threshold = threshold;
    transport_ = MakeRdmaTransport(kScheme, device, options);
  }
  ~Road() {
    bench_.On([this] {
      connecting_ = nullptr;
      client_ = nullptr;
      server_ = nullptr;
    });
  }

  absl::Status Connect(const Endpoint& at) {
    absl::StatusOr<std::unique_ptr<Listener>> listener = transport_->Listen(
        at, {&bench_.loop()}, [this](EventLoop&, std::unique_ptr<Connection> connection) {
          server_ = std::move(connection);
          server_->Start(server_ear_);
        });
    if (!listener.ok()) return listener.status();
    bench_.On([&] {
      connecting_ = transport_->Connect(bench_.loop(), (*listener)->address(), bench_.deadline(),
                                        [this](absl::StatusOr<std::unique_ptr<Connection>> made) {
                                          if (!made.ok()) {
                                            failure_ = made.status();
                                            return;
                                          }
                                          client_ = *std::move(made);
                                          client_->Start(client_ear_);
                                        });
    });
    return Drive([this] { return client_ != nullptr && server_ != nullptr; });
  }

  // Moves messages of `bytes`, one after the other, each until it is received and its memory free.
  absl::StatusOr<Duration> Sample(uint32_t bytes) {
    bytes_ = bytes;
    left_ = kMessagesPerSample;
    TimePoint begin;
    bench_.On([&] {
      begin = Clock::Steady().Now();
      SendNext();
    });
    absl::Status moved = Drive([this] { return left_ == 0; });
    if (!moved.ok()) return moved;
    return end_ - begin;
  }

  uint64_t eager_messages() const { return RdmaCountersOf(*client_)->eager_messages; }

 private:
  template <class Done>
  absl::Status Drive(Done done) {
    const bool in_time = bench_.RunUntil([&] { return done() || !Failure().ok(); });
    if (!Failure().ok()) return Failure();
    return in_time ? absl::OkStatus() : TooSlow();
  }
  const absl::Status& Failure() const {
    if (!server_ear_.failure().ok()) return server_ear_.failure();
    return client_ear_.failure().ok() ? failure_ : client_ear_.failure();
  }

  void SendNext() {
    Message message;
    absl::StatusOr<Buffer> body = client_->pool()->Allocate(bytes_);
    if (!body.ok()) {
      failure_ = body.status();
      return;
    }
    message.body = *std::move(body);
    std::ranges::fill(message.head.Resize(kHeadBytes), std::byte{0});
    awaited_ = 2;
    const auto ended = [this](const SendResult& result) {
      if (result.status.ok()) OnStep();
    };
    if (client_->Send(std::move(message), ended) == 0) --awaited_;  // the reply cannot be here yet
  }
  // It was received, or it ended at the sender.
  void OnStep() {
    if (--awaited_ > 0) return;
    if (--left_ > 0) return SendNext();
    end_ = Clock::Steady().Now();
  }

  Bench& bench_;
  std::shared_ptr<Transport> transport_;
  Ear server_ear_{[this] { OnStep(); }};
  Ear client_ear_{[] {}};
  absl::Status failure_;
  std::unique_ptr<Transport::PendingConnect> connecting_;
  std::unique_ptr<Connection> client_, server_;
  // The sample.
  uint32_t bytes_ = 0;
  int left_ = 0;     // messages that are not through
  int awaited_ = 0;  // of the one that is under way
  TimePoint end_;
};

double Median(std::vector<double>& samples) {
  const auto middle = samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// What one size costs on each road.
struct Row {
  uint32_t bytes = 0;
  std::vector<double> eager = {}, rendezvous = {};
};

std::vector<Row> Rows(uint32_t eager_bytes) {
  std::vector<Row> rows;
  for (uint32_t bytes = kSmallest; bytes < eager_bytes; bytes *= 2) rows.push_back({bytes});
  if (eager_bytes > 0) rows.push_back({eager_bytes});
  return rows;
}

// Sizes that do not travel eagerly, however the threshold is: the device sends no such messages.
absl::Status DropUnsendable(Road& eager, std::vector<Row>& rows) {
  while (!rows.empty()) {
    const uint64_t before = eager.eager_messages();
    absl::StatusOr<Duration> sample = eager.Sample(rows.back().bytes);
    if (!sample.ok()) return sample.status();
    if (eager.eager_messages() != before) break;
    rows.pop_back();
  }
  return absl::OkStatus();
}

// A sample of each size on each road, in turn: what disturbs disturbs all of them alike.
absl::Status Round(Road& eager, Road& rendezvous, std::vector<Row>& rows) {
  for (Row& row : rows) {
    absl::StatusOr<Duration> one = eager.Sample(row.bytes);
    if (!one.ok()) return one.status();
    absl::StatusOr<Duration> other = rendezvous.Sample(row.bytes);
    if (!other.ok()) return other.status();
    row.eager.push_back(static_cast<double>(one->count()));
    row.rendezvous.push_back(static_cast<double>(other->count()));
  }
  return absl::OkStatus();
}

// Each size counts alike, by the ratio of its costs: a single one that is off moves the border only
// when its neighbours agree.
uint32_t Crossover(std::vector<Row>& rows) {
  uint32_t best = 0;
  double sum = 0, least = 0;
  for (Row& row : rows) {
    sum += std::log(Median(row.eager) / Median(row.rendezvous));
    if (sum > least) continue;
    least = sum;
    best = row.bytes;
  }
  return best;
}

}  // namespace

absl::StatusOr<uint32_t> MeasureThreshold(const Endpoint& at, const RdmaDeviceFactory& device,
                                          const RdmaOptions& options, Duration at_most) {
  RdmaOptions unset = options;
  unset.threshold.reset();
  if (absl::Status wrong = rdma::CheckOptions(unset); !wrong.ok()) return wrong;
  Endpoint address = at;
  address.scheme = Road::kScheme;
  Bench bench(at_most);
  Road eager(bench, device, unset, unset.eager_bytes);
  Road rendezvous(bench, device, unset, 0);
  for (Road* road : {&eager, &rendezvous}) {
    if (absl::Status connected = road->Connect(address); !connected.ok()) return connected;
  }
  std::vector<Row> rows = Rows(unset.eager_bytes);
  absl::Status status = DropUnsendable(eager, rows);
  // The first round warms everything up and does not count.
  if (status.ok()) status = Round(eager, rendezvous, rows);
  for (Row& row : rows) row.eager.clear(), row.rendezvous.clear();
  size_t rounds = 0;
  while (status.ok() && !rows.empty() && (bench.spent() < kEnough || rounds < kFewestSamples)) {
    status = Round(eager, rendezvous, rows);
    if (status.ok()) ++rounds;
  }
  const bool out_of_time = absl::IsDeadlineExceeded(status) && rounds >= kFewestSamples;
  if (!status.ok() && !out_of_time) return status;
  return Crossover(rows);
}

}  // namespace farcall
