#include "farcall/tests/services/child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

namespace farcall::testing {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr char kReady[] = "listening on ";

}  // namespace

Child::Child(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  output_ = ends[0];
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(ends[1], STDOUT_FILENO);
    // What this test's own parent left open is nothing to the program.
    ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  const std::string line = ReadLine();
  if (line.starts_with(kReady)) address_ = line.substr(sizeof kReady - 1);
}

Child::~Child() {
  End(SIGKILL);
  if (output_ >= 0) ::close(output_);
}

std::string Child::ReadLine() const {
  std::string line;
  pollfd ready{output_, POLLIN, 0};
  while (true) {
    // A test may interrupt itself by signals.
    const int polled = ::poll(&ready, 1, kPatienceMs);
    if (polled < 0 && errno == EINTR) continue;
    char byte = 0;
    const ssize_t got = polled > 0 ? ::read(output_, &byte, 1) : 0;
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return polled > 0 ? line : "";
    if (byte == '\n') return line;
    line += byte;
  }
}

int Child::End(int signal) {
  if (pid_ <= 0) return 0;
  ::kill(pid_, signal);
  int status = 0;
  for (int waited = 0; ::waitpid(pid_, &status, WNOHANG) == 0; ++waited) {
    if (waited == kPatienceMs) ::kill(pid_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  pid_ = -1;
  return status;
}

}  // namespace farcall::testing
