#include "farcall/rpc/log.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/rpc/mutex.h"

namespace farcall {
namespace {

TEST_CASE("lines go to the sink that was set, from its level on") {
  std::vector<std::pair<LogLevel, std::string>> lines;
  SetLogSink([&](LogLevel level, std::string_view line) { lines.emplace_back(level, line); },
             LogLevel::kWarning);
  CHECK_FALSE(LogEnabled(LogLevel::kInfo));
  CHECK(LogEnabled(LogLevel::kWarning));
  Log(LogLevel::kInfo, "dropped");
  Log(LogLevel::kWarning, "first");
  Log(LogLevel::kError, "second");
  SetLogSink({});
  CHECK(LogEnabled(LogLevel::kInfo));
  CHECK_FALSE(LogEnabled(LogLevel::kDebug));
  CHECK(lines == std::vector<std::pair<LogLevel, std::string>>{{LogLevel::kWarning, "first"},
                                                               {LogLevel::kError, "second"}});
}

TEST_CASE("what a peer says cannot forge a line") {
  std::string heard;
  SetLogSink([&](LogLevel /*level*/, std::string_view line) { heard = line; });
  Log(LogLevel::kError, std::string("a\r\nE b\0c\x7f\xc3\xa9", 11));
  SetLogSink({});
  CHECK(heard == "a\\x0d\\x0aE b\\x00c\\x7f\xc3\xa9");
}

TEST_CASE("standard error gets one stamped line a call") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  Log(LogLevel::kError, "peer tcp://10.0.0.7:41022 broke the rules");
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::close(ends[1]);
  std::array<char, 512> text{};
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  REQUIRE(size > 0);
  CHECK_THAT(std::string(text.data(), static_cast<size_t>(size)),
             Catch::Matches("E \\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z farcall: "
                            "peer tcp://10\\.0\\.0\\.7:41022 broke the rules\n"));
}

TEST_CASE("a standard error that nobody reads costs the line, not the process") {
  REQUIRE(::signal(SIGPIPE, SIG_DFL) != SIG_ERR);
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  ::close(ends[0]);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  for (int i = 0; i < 3; ++i) Log(LogLevel::kError, "nobody hears this");
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::close(ends[1]);
  sigset_t pending, blocked;
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  CHECK(::sigismember(&pending, SIGPIPE) == 0);
  CHECK(::sigismember(&blocked, SIGPIPE) == 0);
}

TEST_CASE("threads log while the sink is replaced") {
  Mutex mutex;
  size_t count = 0;
  const auto counting = [&](LogLevel, std::string_view) {
    MutexLock lock(mutex);
    ++count;
  };
  SetLogSink(counting);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int line = 0; line < 1000; ++line) Log(LogLevel::kInfo, "x");
    });
  }
  for (int i = 0; i < 200; ++i) SetLogSink(counting);
  for (std::thread& thread : threads) thread.join();
  SetLogSink({});
  CHECK(count == 4000);
}

TEST_CASE("a sink may log itself") {
  int depth = 0;
  SetLogSink([&](LogLevel level, std::string_view) {
    if (++depth < 3) Log(level, "again");
  });
  Log(LogLevel::kInfo, "once");
  SetLogSink({});
  CHECK(depth == 3);
}

}  // namespace
}  // namespace farcall
