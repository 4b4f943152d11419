// Log lines go to one sink: standard error unless the program sets its own. A library is quiet:
// only warnings and errors are said until the program asks for more.

#ifndef FARCALL_RPC_LOG_H_
#define FARCALL_RPC_LOG_H_

#include <functional>
#include <string_view>

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

}  // namespace farcall

#endif  // FARCALL_RPC_LOG_H_
