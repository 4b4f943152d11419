#include "farcall/bench/measure/clock.h"

#include <time.h>

#include <string>

namespace farcall::bench {
namespace {

uint64_t ToNs(const timespec& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

uint64_t NowNs() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return ToNs(time);
}

uint64_t OwnCpuNs() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return ToNs(time);
}

absl::StatusOr<uint64_t> CpuNsOf(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  const int error = clock_getcpuclockid(pid, &clock);
  if (error != 0 || clock_gettime(clock, &time) != 0) {
    return absl::NotFoundError("no CPU clock of process " + std::to_string(pid) +
                               ": it does not exist (any more)");
  }
  return ToNs(time);
}

}  // namespace farcall::bench
