// The tour says what it promises, stop by stop.

#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

namespace {

TEST_CASE("the tour's stops are all there") {
  FILE* pipe = popen(FARCALL_TOUR " 2>&1", "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  char chunk[4096];
  for (size_t bytes = 0; (bytes = fread(chunk, 1, sizeof(chunk), pipe)) > 0;) {
    output.append(chunk, bytes);
  }
  CHECK(WEXITSTATUS(pclose(pipe)) == 0);
  CHECK(output ==
        "blocking       OK\n"
        "object API     OK\n"
        "attachment     1000 bytes there, 1000 back\n"
        "own memory     from it, and back into it\n"
        "metadata       kept-for ann\n"
        "call info      it knows how long the answer took\n"
        "error payload  NOT_FOUND, answered; there are apple book cup lamp\n"
        "callback       4 things\n"
        "co_await       pen is there, by the channel's loop\n"
        "co_await       ink is there, by an io_context of ours\n"
        "deadline       DEADLINE_EXCEEDED\n"
        "cancellation   CANCELLED\n");
}

}  // namespace
