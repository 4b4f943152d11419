#include "farcall/bench/measure/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <thread>

namespace farcall::bench {
namespace {

using Clock = std::chrono::steady_clock;

// A server says where it listens in one short line; more than this without a newline is no such
// line.
constexpr size_t kMaxReadyOutputBytes = 64 * 1024;

// Between fork and exec: only async-signal-safe calls. Reports errno of what failed through
// `error_fd`.
[[noreturn]] void RunInChild(char* const* arguments, const cpu_set_t* cores, pid_t parent,
                             int output_fd, int error_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  dup2(output_fd, STDOUT_FILENO);
  if (cores == nullptr || sched_setaffinity(0, sizeof(*cores), cores) == 0) {
    execv(arguments[0], arguments);
  }
  const int error = errno;
  if (write(error_fd, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

// What the child reported through the pipe, or 0 once exec has closed it.
int ReadExecError(int error_fd) {
  int error = 0;
  ssize_t bytes = 0;
  do {
    bytes = read(error_fd, &error, sizeof(error));
  } while (bytes < 0 && errno == EINTR);
  return bytes == ssize_t{sizeof(error)} ? error : 0;
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const Options& options) {
  std::vector<std::string> command = options.command;
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (options.core) CPU_SET(static_cast<size_t>(*options.core), &cores);

  int output[2] = {-1, -1};
  int error[2] = {-1, -1};
  if (pipe2(output, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  if (pipe2(error, O_CLOEXEC) != 0) {
    const int pipe_error = errno;
    close(output[0]);
    close(output[1]);
    return absl::ErrnoToStatus(pipe_error, "pipe");
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  const int fork_error = errno;
  if (pid == 0) {
    RunInChild(arguments.data(), options.core ? &cores : nullptr, parent, output[1], error[1]);
  }
  close(output[1]);
  close(error[1]);
  if (pid < 0) {
    close(output[0]);
    close(error[0]);
    return absl::ErrnoToStatus(fork_error, "fork");
  }
  ChildProcess child(pid, output[0]);
  const int exec_error = ReadExecError(error[0]);
  close(error[0]);
  if (exec_error != 0) {
    return absl::NotFoundError("cannot run " + command.front() + ": " + strerror(exec_error));
  }
  if (!options.ready_prefix.empty()) {
    const absl::Status ready = child.AwaitReadyLine(options);
    if (!ready.ok()) return ready;
  }
  return child;
}

absl::Status ChildProcess::AwaitReadyLine(const Options& options) {
  const std::string& program = options.command.front();
  const Clock::time_point deadline = Clock::now() + options.ready_timeout;
  std::string output;
  while (output.size() < kMaxReadyOutputBytes) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd readable{output_fd_, POLLIN, 0};
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) == 0) {
      return absl::DeadlineExceededError(
          program + " did not print '" + options.ready_prefix + "…' within " +
          std::to_string(options.ready_timeout.count()) + " ms; it printed '" + output + "'");
    }
    char chunk[1024];
    const ssize_t bytes = read(output_fd_, chunk, sizeof(chunk));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) {
      return absl::UnavailableError(program + " ended before it served; it printed '" + output +
                                    "' (its errors are above)");
    }
    output.append(chunk, static_cast<size_t>(bytes));
    for (size_t end = output.find('\n'); end != std::string::npos; end = output.find('\n')) {
      if (output.compare(0, options.ready_prefix.size(), options.ready_prefix) == 0) {
        ready_line_ = output.substr(options.ready_prefix.size(), end - options.ready_prefix.size());
        return absl::OkStatus();
      }
      output.erase(0, end + 1);
    }
  }
  return absl::UnavailableError(program + " prints no line that starts with '" +
                                options.ready_prefix + "'");
}

bool ChildProcess::ReapWithin(std::chrono::milliseconds patience) {
  const Clock::time_point deadline = Clock::now() + patience;
  while (true) {
    const pid_t reaped = waitpid(pid_, nullptr, WNOHANG);
    if (reaped == pid_ || (reaped < 0 && errno != EINTR)) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void ChildProcess::Stop(std::chrono::milliseconds patience) {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    if (!ReapWithin(patience)) {
      kill(pid_, SIGKILL);
      // A killed process can still be stuck in the kernel for a while; 10 s is then all it gets.
      ReapWithin(std::chrono::seconds(10));
    }
    pid_ = -1;
  }
  if (output_fd_ >= 0) close(std::exchange(output_fd_, -1));
}

ChildProcess::~ChildProcess() { Stop(); }

std::string FolderOfThisProgram() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string_view program(path, static_cast<size_t>(std::max<ssize_t>(length, 0)));
  const size_t slash = program.rfind('/');
  return slash == std::string_view::npos ? "." : std::string(program.substr(0, slash));
}

}  // namespace farcall::bench
