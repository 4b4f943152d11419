#include "farcall/bench/demo/echo_run.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "farcall/bench/demo/echo_calls.h"
#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/recorder.h"
#include "farcall/rpc/event_loop.h"

namespace farcall::bench {
namespace {

// Keeps a number of calls under way, all of it on the driver of the channel's loop.
class Window final : private BlockingTask {
 public:
  Window(std::vector<EchoCalls>& calls, int outstanding, uint64_t first_call, Recorder& recorder)
      : calls_(calls),
        started_at_ns_(static_cast<size_t>(outstanding)),
        next_call_(first_call),
        recorder_(recorder) {}

  // Returns when the recorder wants no more and all calls ended, each by its deadline at the
  // latest.
  absl::Status RunOn(EventLoop& loop) { return loop.RunBlocking(*this); }

 private:
  void Run() override {
    const uint64_t now_ns = NowNs();
    under_way_ = started_at_ns_.size();
    for (size_t slot = 0; slot < started_at_ns_.size(); ++slot) Start(slot, now_ns);
  }

  void Start(size_t slot, uint64_t now_ns) {
    started_at_ns_[slot] = now_ns;
    calls_[slot % calls_.size()].Start(
        next_call_++, [this, slot](const absl::Status& outcome) { Ended(slot, outcome); });
  }

  void Ended(size_t slot, const absl::Status& outcome) {
    const uint64_t now_ns = NowNs();
    if (recorder_.Take(started_at_ns_[slot], now_ns, outcome)) {
      Start(slot, now_ns);
    } else if (--under_way_ == 0) {
      Finish();
    }
  }

  std::vector<EchoCalls>& calls_;  // one a connection
  std::vector<uint64_t> started_at_ns_;
  uint64_t next_call_;
  Recorder& recorder_;
  size_t under_way_ = 0;
};

// Starts calls at random times, as many clients that know nothing of each other would, all of it on
// the driver of the channel's loop, which never sleeps meanwhile. What a call takes begins when it
// was due.
class Paced final : private BlockingTask {
 public:
  Paced(std::vector<EchoCalls>& calls, double mean_gap_ns, uint64_t first_call, Recorder& recorder)
      : calls_(calls), gap_ns_(1 / mean_gap_ns), next_call_(first_call), recorder_(recorder) {}

  // As Window.
  absl::Status RunOn(EventLoop& loop) {
    loop_ = &loop;
    return loop.RunBlocking(*this);
  }

 private:
  class Tick final : public LoopTask {
   public:
    explicit Tick(Paced& paced) : paced_(paced) {}
    void Run() override { paced_.StartDue(); }

   private:
    Paced& paced_;
  };

  void Run() override {
    next_due_ns_ = static_cast<double>(NowNs());
    StartDue();
  }

  void StartDue() {
    const auto now_ns = static_cast<double>(NowNs());
    for (; wants_more_ && next_due_ns_ <= now_ns; next_due_ns_ += gap_ns_(random_)) {
      ++under_way_;
      EchoCalls& calls = calls_[next_call_ % calls_.size()];
      calls.Start(next_call_++, [this, due_ns = static_cast<uint64_t>(next_due_ns_)](
                                    const absl::Status& outcome) { Ended(due_ns, outcome); });
    }
    if (wants_more_ || under_way_ > 0) {
      loop_->Submit(tick_);
    } else {
      Finish();
    }
  }

  void Ended(uint64_t due_ns, const absl::Status& outcome) {
    --under_way_;
    if (!recorder_.Take(due_ns, NowNs(), outcome)) wants_more_ = false;
  }

  std::vector<EchoCalls>& calls_;  // one a connection
  std::exponential_distribution<double> gap_ns_;
  std::minstd_rand random_;
  double next_due_ns_ = 0;
  uint64_t next_call_;
  Recorder& recorder_;
  EventLoop* loop_ = nullptr;
  Tick tick_{*this};
  bool wants_more_ = true;
  size_t under_way_ = 0;
};

// The mean time between calls at part of the rate that the workload reaches when each call that
// ends starts the next one.
absl::StatusOr<double> GapAtLoad(std::vector<EchoCalls>& calls, const Workload& workload,
                                 uint64_t next_call, EventLoop& loop) {
  Workload fastest = workload;
  fastest.duration = workload.warm_up;
  Recorder recorder(fastest, {});
  absl::Status ran = Window(calls, workload.outstanding, next_call, recorder).RunOn(loop);
  if (!ran.ok()) return ran;
  const absl::StatusOr<Measurement> most = std::move(recorder).Result();
  if (!most.ok()) return most.status();
  const uint64_t ended = most->latency.count();
  if (ended == 0) return absl::InternalError("no call ended in the time of the warm-up");
  return static_cast<double>(most->elapsed_ns) / static_cast<double>(ended) * 100 /
         workload.load_percent;
}

absl::Status CompareInFull(EchoCalls& calls, int number, uint64_t& next_call) {
  calls.CompareInFull(true);
  for (int i = 0; i < number; ++i) {
    absl::Status outcome = calls.Call(next_call++);
    if (!outcome.ok()) return outcome;
  }
  calls.CompareInFull(false);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Measurement> RunEcho(std::span<const Channel> channels, const Workload& workload,
                                    const Meters& meters) {
  std::vector<EchoCalls> calls;
  uint64_t next_call = 1;
  for (const Channel& channel : channels) {
    absl::StatusOr<EchoCalls> of_one = EchoCalls::Make(channel, workload);
    if (!of_one.ok()) return of_one.status();
    calls.push_back(*std::move(of_one));
    absl::Status compared = CompareInFull(calls.back(), workload.outstanding, next_call);
    if (!compared.ok()) return compared;
  }

  EventLoop& loop = channels.front().loop();
  absl::StatusOr<double> gap_ns = 0.0;
  if (workload.load_percent > 0) {
    gap_ns = GapAtLoad(calls, workload, next_call, loop);
    if (!gap_ns.ok()) return gap_ns.status();
  }

  Recorder recorder(workload, meters);
  absl::Status ran;
  // Beside asynchronous calls a blocking one would change places with the loop's thread, and share
  // its core: what is measured there is the connection.
  if (workload.outstanding == 1 && workload.beside_bytes == 0) {
    uint64_t started_ns = 0;
    uint64_t now_ns = NowNs();
    absl::Status outcome;
    do {
      started_ns = now_ns;
      outcome = calls.front().Call(next_call++);
      now_ns = NowNs();
    } while (recorder.Take(started_ns, now_ns, outcome));
  } else if (workload.load_percent > 0) {
    ran = Paced(calls, *gap_ns, next_call, recorder).RunOn(loop);
  } else {
    ran = Window(calls, workload.outstanding, next_call, recorder).RunOn(loop);
  }
  if (!ran.ok()) return ran;
  return std::move(recorder).Result();
}

}  // namespace farcall::bench
