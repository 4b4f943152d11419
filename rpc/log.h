// Log lines go to one sink: standard error unless the program sets its own. A library is quiet:
// only warnings and errors are said until the program asks for more.

#ifndef FARCALL_RPC_LOG_H_
#define FARCALL_RPC_LOG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "farcall/rpc/clock.h"

namespace farcall {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Called for each line (no newline at the end), on any thread, several at once. Must not block for
// long. What peers say finds its way into lines: bytes below 0x20 arrive as \xNN, so that none can
// forge a line.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

// Replaces the sink; an empty one restores standard error (of which a broken pipe costs the lines,
// not the process: no SIGPIPE). Lines below `minimum` are dropped before
// they are built. Thread-safe; a line under way on another thread may still reach the old sink.
void SetLogSink(LogSink sink, LogLevel minimum = LogLevel::kInfo);

bool LogEnabled(LogLevel level);
void Log(LogLevel level, std::string_view line);

// `text` as it may stand in a line.
std::string Printable(std::string_view text);

// For lines that peers can cause as often as they like: a burst, then a few a second. Not
// thread-safe.
class LogThrottle {
 public:
  static constexpr uint64_t kBurst = 100;
  static constexpr uint64_t kPerSecond = 10;

  // Logs a warning, or leaves it out; the next one that is said tells how many were.
  void Warn(TimePoint now, std::string_view line);

 private:
  uint64_t left_ = kBurst;
  TimePoint refilled_{};  // when `left_` was last added to
  uint64_t left_out_ = 0;
};

}  // namespace farcall

#endif  // FARCALL_RPC_LOG_H_
