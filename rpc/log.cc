#include "farcall/rpc/log.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "farcall/rpc/mutex.h"

namespace farcall {
namespace {

struct Sink {
  Mutex mutex;
  std::shared_ptr<const LogSink> sink ABSL_GUARDED_BY(mutex);  // nullptr: standard error
};

Sink& CurrentSink() {
  static Sink* const sink = new Sink;  // threads may log while static objects are destroyed
  return *sink;
}

std::atomic<LogLevel> minimum_level{LogLevel::kWarning};

char LetterOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return 'D';
    case LogLevel::kInfo:
      return 'I';
    case LogLevel::kWarning:
      return 'W';
    case LogLevel::kError:
      return 'E';
  }
  return '?';
}

// A pipe that nobody reads any more costs the text, not the process: no SIGPIPE comes of it.
void WriteWithoutSignal(std::string_view text) {
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  ssize_t written = 0;
  do {
    written = ::write(STDERR_FILENO, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    const timespec at_once{};
    sigtimedwait(&pipe, nullptr, &at_once);  // ours
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// "W 2026-01-31T12:00:00.123Z farcall: line", in one write, so that lines do not mix.
void WriteToStandardError(LogLevel level, std::string_view line) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  char stamp[40];
  const size_t length = std::strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(stamp + length, sizeof(stamp) - length, ".%03dZ",
                static_cast<int>(now.tv_nsec / 1'000'000));
  std::string text;
  text.reserve(line.size() + 48);
  text.append(1, LetterOf(level)).append(1, ' ').append(stamp).append(" farcall: ");
  text.append(line).append(1, '\n');
  WriteWithoutSignal(text);
}

bool IsControl(char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }

}  // namespace

void SetLogSink(LogSink sink, LogLevel minimum) {
  auto shared = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  Sink& current = CurrentSink();
  {
    MutexLock lock(current.mutex);
    current.sink.swap(shared);  // the old one is destroyed outside of the lock
  }
  minimum_level.store(minimum, std::memory_order_relaxed);
}

bool LogEnabled(LogLevel level) { return level >= minimum_level.load(std::memory_order_relaxed); }

void Log(LogLevel level, std::string_view line) {
  if (!LogEnabled(level)) return;
  std::string escaped;
  if (std::any_of(line.begin(), line.end(), IsControl)) line = escaped = Printable(line);
  Sink& current = CurrentSink();
  std::shared_ptr<const LogSink> sink;
  {
    MutexLock lock(current.mutex);
    sink = current.sink;
  }
  if (sink != nullptr) {
    (*sink)(level, line);
  } else {
    WriteToStandardError(level, line);
  }
}

std::string Printable(std::string_view text) {
  std::string printable;
  for (const char c : text) {
    if (IsControl(c)) {
      constexpr char kDigits[] = "0123456789abcdef";
      printable.append("\\x").append(1, kDigits[c >> 4]).append(1, kDigits[c & 15]);
    } else {
      printable += c;
    }
  }
  return printable;
}

void LogThrottle::Warn(TimePoint now, std::string_view line) {
  constexpr Duration kEach = std::chrono::nanoseconds(std::chrono::seconds(1)) / kPerSecond;
  if (left_ == kBurst) refilled_ = now;
  const auto more = static_cast<uint64_t>(std::max(now - refilled_, Duration(0)) / kEach);
  left_ = more > kBurst - left_ ? kBurst : left_ + more;
  refilled_ += static_cast<Duration::rep>(more) * kEach;
  if (left_ == 0) {
    ++left_out_;
    return;
  }
  --left_;
  if (left_out_ == 0) {
    Log(LogLevel::kWarning, line);
    return;
  }
  Log(LogLevel::kWarning, std::string(line)
                              .append(" (")
                              .append(std::to_string(std::exchange(left_out_, 0)))
                              .append(" lines like this one were left out)"));
}

}  // namespace farcall
