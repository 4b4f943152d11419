#include "farcall/bench/measure/cores.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include "farcall/bench/measure/clock.h"

namespace farcall::bench {
namespace {

// 500 round trips take 30 to 350 us: shorter than a scheduler slice, so most batches run
// undisturbed.
constexpr int kBatches = 9;
constexpr uint32_t kRoundTripsPerBatch = 500;
// Among busy neighbours the two threads run together only now and then.
constexpr uint64_t kProbeLimitNs = 1'000'000'000;

struct alignas(64) Line {
  std::atomic<uint32_t> value{0};
};

// Waits until the line holds `wanted`; false when the deadline passed first.
bool Await(const Line& line, uint32_t wanted, uint64_t deadline_ns) {
  for (uint32_t spins = 1; line.value.load(std::memory_order_acquire) != wanted; ++spins) {
    if (spins % 1024 == 0 && NowNs() > deadline_ns) return false;
  }
  return true;
}

// One side of the ping-pong: answers every odd value with the next even one.
void Answer(Line& line, uint64_t deadline_ns) {
  for (uint32_t turn = 0; turn < kBatches * kRoundTripsPerBatch; ++turn) {
    if (!Await(line, 2 * turn + 1, deadline_ns)) return;
    line.value.store(2 * turn + 2, std::memory_order_release);
  }
}

}  // namespace

std::vector<int> AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

absl::Status PinThisThread(int core) {
  if (core < 0 || core >= CPU_SETSIZE) {
    return absl::InvalidArgumentError("core " + std::to_string(core) + " does not exist");
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    return absl::ErrnoToStatus(errno, "cannot pin a thread to core " + std::to_string(core));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> CoreDistanceNs(int core_a, int core_b) {
  if (core_a == core_b) {
    return absl::InvalidArgumentError("core distance needs two cores, both are " +
                                      std::to_string(core_a));
  }
  Line line;
  absl::Status answer_pinned;
  const uint64_t deadline_ns = NowNs() + kProbeLimitNs;
  std::thread answering([&] {
    answer_pinned = PinThisThread(core_b);
    if (answer_pinned.ok()) Answer(line, deadline_ns);
  });

  absl::Status ask_pinned;
  std::vector<double> batches;
  std::thread asking([&] {
    ask_pinned = PinThisThread(core_a);
    uint32_t turn = 0;
    while (ask_pinned.ok() && batches.size() < kBatches) {
      const uint64_t start_ns = NowNs();
      for (uint32_t i = 0; i < kRoundTripsPerBatch; ++i, ++turn) {
        line.value.store(2 * turn + 1, std::memory_order_release);
        if (!Await(line, 2 * turn + 2, deadline_ns)) return;
      }
      batches.push_back(static_cast<double>(NowNs() - start_ns) / (2.0 * kRoundTripsPerBatch));
    }
  });
  asking.join();
  answering.join();

  if (!ask_pinned.ok()) return ask_pinned;
  if (!answer_pinned.ok()) return answer_pinned;
  if (batches.size() < kBatches) {
    return absl::UnavailableError("the cores were too busy to measure their distance");
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2];
}

CoreDistance GroupOf(std::optional<double> core_distance_ns) {
  if (!core_distance_ns) return CoreDistance::kUnknown;
  if (*core_distance_ns < 21) return CoreDistance::kSameCore;
  if (*core_distance_ns < 71) return CoreDistance::kNear;
  return CoreDistance::kFar;
}

const char* NameOf(CoreDistance group) {
  switch (group) {
    case CoreDistance::kSameCore:
      return "same core";
    case CoreDistance::kNear:
      return "near";
    case CoreDistance::kFar:
      return "far";
    case CoreDistance::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace farcall::bench
