#include "farcall/bench/measure/clock.h"

#include <time.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

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

absl::StatusOr<uint64_t> ContextSwitchesOf(pid_t pid) {
  uint64_t switches = 0;
  std::error_code error;
  const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
  std::filesystem::directory_iterator task(tasks, error);
  for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
    std::ifstream status(task->path() / "status");
    for (std::string name; status >> name;) {
      if (!name.ends_with("voluntary_ctxt_switches:")) continue;  // nonvoluntary_… as well
      uint64_t of_this = 0;
      status >> of_this;
      switches += of_this;
    }
  }
  if (error) return absl::NotFoundError("cannot read " + tasks.string() + ": " + error.message());
  return switches;
}

}  // namespace farcall::bench
