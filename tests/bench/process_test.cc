#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/bench/measure/child_process.h"
#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/cores.h"
#include "farcall/bench/measure/socket_options.h"

namespace farcall::bench {
namespace {

using std::chrono::milliseconds;

ChildProcess::Options Shell(const std::string& script) {
  return {.command = {"/bin/sh", "-c", script}, .core = {}, .ready_prefix = "ready "};
}

bool Within(milliseconds limit, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

bool IsGone(pid_t pid) { return kill(pid, 0) != 0; }

TEST_CASE("a child is ready when it says so, and gone with its object") {
  pid_t pid = 0;
  {
    absl::StatusOr<ChildProcess> child =
        ChildProcess::Start(Shell("echo starting; echo ready 4711; exec sleep 60"));
    REQUIRE(child.ok());
    CHECK(child->ready_line() == "4711");
    pid = child->pid();
    CHECK_FALSE(IsGone(pid));
    const ChildProcess moved = *std::move(child);
    CHECK_FALSE(IsGone(moved.pid()));
  }
  CHECK(IsGone(pid));
}

TEST_CASE("a child that ignores SIGTERM is killed") {
  absl::StatusOr<ChildProcess> child = ChildProcess::Start(
      Shell("trap '' TERM; echo ready; echo ready .; while :; do sleep 1; done"));
  REQUIRE(child.ok());
  const pid_t pid = child->pid();
  child->Stop(milliseconds(50));
  CHECK(IsGone(pid));
  child->Stop();
}

TEST_CASE("a child that never gets ready is an error in time, with what it printed") {
  ChildProcess::Options options = Shell("echo confused; exec sleep 60");
  options.ready_timeout = milliseconds(200);
  const absl::Status status = ChildProcess::Start(options).status();
  CHECK(absl::IsDeadlineExceeded(status));
  CHECK(std::string(status.message()).find("200 ms") != std::string::npos);
}

TEST_CASE("a child that ends, or cannot run, says which") {
  CHECK(absl::IsUnavailable(ChildProcess::Start(Shell("exit 3")).status()));
  const absl::Status status =
      ChildProcess::Start({.command = {"/nowhere/server"}, .core = {}, .ready_prefix = "ready"})
          .status();
  CHECK(absl::IsNotFound(status));
  CHECK(std::string(status.message()).find("/nowhere/server") != std::string::npos);
}

TEST_CASE("a child does not outlive the process that started it") {
  int pids[2];
  REQUIRE(pipe(pids) == 0);
  const pid_t parent = fork();
  if (parent == 0) {
    absl::StatusOr<ChildProcess> child = ChildProcess::Start(Shell("echo ready .; exec sleep 60"));
    const pid_t pid = child.ok() ? child->pid() : -1;
    _exit(write(pids[1], &pid, sizeof(pid)) == sizeof(pid) ? 0 : 1);  // no destructor
  }
  REQUIRE(parent > 0);
  pid_t child = -1;
  REQUIRE(read(pids[0], &child, sizeof(child)) == ssize_t{sizeof(child)});
  REQUIRE(child > 0);
  waitpid(parent, nullptr, 0);
  // The orphan may stay a zombie where nobody reaps; a zombie has no CPU clock that still moves,
  // but it does have a state.
  CHECK(Within(milliseconds(5000), [&] {
    const std::string stat = "/proc/" + std::to_string(child) + "/stat";
    return IsGone(child) || system(("grep -q ') [ZX] ' " + stat + " 2>&1").c_str()) == 0;
  }));
  close(pids[0]);
  close(pids[1]);
}

TEST_CASE("a child runs on the core that it is given") {
  const int core = AllowedCores().back();
  ChildProcess::Options options =
      Shell("sed -n 's/^Cpus_allowed_list:[[:space:]]*/ready /p' /proc/self/status; exec sleep 60");
  options.core = core;
  const absl::StatusOr<ChildProcess> child = ChildProcess::Start(options);
  REQUIRE(child.ok());
  CHECK(child->ready_line() == std::to_string(core));
}

TEST_CASE("CPU time of this process and of another moves with their work") {
  const uint64_t own_before_ns = OwnCpuNs();
  const absl::StatusOr<ChildProcess> busy =
      ChildProcess::Start(Shell("echo ready .; while :; do :; done"));
  REQUIRE(busy.ok());
  const absl::StatusOr<uint64_t> start_ns = CpuNsOf(busy->pid());
  REQUIRE(start_ns.ok());
  CHECK(Within(milliseconds(20000),
               [&] { return CpuNsOf(busy->pid()).value_or(0) > *start_ns + 20'000'000; }));

  const absl::StatusOr<ChildProcess> idle =
      ChildProcess::Start(Shell("echo ready .; exec sleep 60"));
  REQUIRE(idle.ok());
  CHECK(CpuNsOf(idle->pid()).value_or(1'000'000'000) < 1'000'000'000);

  while (OwnCpuNs() < own_before_ns + 5'000'000) {
  }
  CHECK(CpuNsOf(getpid()).value_or(0) >= own_before_ns + 5'000'000);
}

TEST_CASE("a process that does not exist has no CPU time") {
  absl::StatusOr<ChildProcess> child = ChildProcess::Start(Shell("echo ready .; exec sleep 60"));
  REQUIRE(child.ok());
  const pid_t pid = child->pid();
  child->Stop();
  CHECK(absl::IsNotFound(CpuNsOf(pid).status()));
}

TEST_CASE("a thread is pinned to the core that it asks for") {
  std::thread([] {
    for (const int core : AllowedCores()) {
      REQUIRE(PinThisThread(core).ok());
      CHECK(AllowedCores() == std::vector<int>{core});
      std::thread([&] { CHECK(AllowedCores() == std::vector<int>{core}); }).join();
      break;  // from here on there is one allowed core only
    }
  }).join();
  CHECK_FALSE(PinThisThread(-1).ok());
  CHECK_FALSE(PinThisThread(1'000'000).ok());
}

TEST_CASE("two cores have a distance that light and caches allow") {
  const std::vector<int> cores = AllowedCores();
  CHECK(absl::IsInvalidArgument(CoreDistanceNs(cores[0], cores[0]).status()));
  if (cores.size() < 2) return;
  // Busy neighbours may keep the two threads apart for a while.
  absl::StatusOr<double> distance_ns = absl::UnavailableError("");
  CHECK(Within(milliseconds(20000), [&] {
    distance_ns = CoreDistanceNs(cores[0], cores[1]);
    return distance_ns.ok() || !absl::IsUnavailable(distance_ns.status());
  }));
  REQUIRE(distance_ns.ok());
  CHECK(*distance_ns > 1);
  CHECK(*distance_ns < 1'000'000);
}

TEST_CASE("a socket takes the congestion control that all measured ones share") {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(SetCongestionControl(fd).ok());
  char name[16] = {};
  socklen_t length = sizeof(name);
  REQUIRE(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0);
  CHECK(std::string(name) == kCongestionControl);
  CHECK_FALSE(SetCongestionControl(fd, "no_such_control").ok());
  close(fd);
}

}  // namespace
}  // namespace farcall::bench
