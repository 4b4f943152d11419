#include "farcall/bench/demo/echo_run.h"

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

  Recorder recorder(workload, meters);
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
  } else {
    absl::Status ran =
        Window(calls, workload.outstanding, next_call, recorder).RunOn(channels.front().loop());
    if (!ran.ok()) return ran;
  }
  return std::move(recorder).Result();
}

}  // namespace farcall::bench
