// A server in a process of its own, for as long as one object lives.
//
// Not thread-safe. The child is killed when this object goes, and by the kernel when the thread
// that started it ends (the benchmark crashed or was killed), so that no server outlives its run.
#ifndef FARCALL_BENCH_MEASURE_CHILD_PROCESS_H_
#define FARCALL_BENCH_MEASURE_CHILD_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farcall::bench {

class ChildProcess {
 public:
  struct Options {
    std::vector<std::string> command;  // path of the program, then its arguments
    std::optional<int> core;           // pinned to it, with all its threads
    // The first line of the child's standard output that starts so says that it serves. Empty: do
    // not wait for one.
    std::string ready_prefix;
    std::chrono::milliseconds ready_timeout{5000};
  };

  // Starts the program and waits for its ready line. NOT_FOUND when it cannot be run, UNAVAILABLE
  // when it ended before the line, DEADLINE_EXCEEDED when the line did not come in time; it is
  // stopped then. Its standard error is ours.
  static absl::StatusOr<ChildProcess> Start(const Options& options);

  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        output_fd_(std::exchange(other.output_fd_, -1)),
        ready_line_(std::move(other.ready_line_)) {}
  ChildProcess& operator=(ChildProcess&& other) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }

  // What followed the ready prefix on its line.
  const std::string& ready_line() const { return ready_line_; }

  // Asks the child to end (SIGTERM), kills it when it has not done so after `patience`, and reaps
  // it. Idempotent.
  void Stop(std::chrono::milliseconds patience = std::chrono::milliseconds(1000));

 private:
  ChildProcess(pid_t pid, int output_fd) : pid_(pid), output_fd_(output_fd) {}

  absl::Status AwaitReadyLine(const Options& options);
  bool ReapWithin(std::chrono::milliseconds patience);

  pid_t pid_;
  int output_fd_;  // kept open: a child that prints later must not die of SIGPIPE
  std::string ready_line_;
};

// The folder of the running program, with no slash at its end. Programs that belong together are
// built and installed side by side.
std::string FolderOfThisProgram();

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_CHILD_PROCESS_H_
