// The demo's command line; what it measures has its own tests.
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

namespace {

struct Run {
  int exit_status = -1;
  std::string output;  // both streams
};

Run Demo(const std::string& arguments) {
  Run run;
  FILE* pipe = popen((std::string(FARCALL_DEMO) + " " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char chunk[4096];
  for (size_t bytes = 0; (bytes = fread(chunk, 1, sizeof(chunk), pipe)) > 0;) {
    run.output.append(chunk, bytes);
  }
  run.exit_status = WEXITSTATUS(pclose(pipe));
  return run;
}

TEST_CASE("--help explains every argument") {
  const Run run = Demo("--help");
  CHECK(run.exit_status == 0);
  for (const char* argument : {"--load", "--quick", "--no-peers", "--json FILE", "--help"}) {
    CHECK(run.output.find(argument) != std::string::npos);
  }
}

TEST_CASE("arguments that make no sense are refused with the usage") {
  for (const char* arguments : {"--fast", "--json", "quick"}) {
    CAPTURE(arguments);
    const Run run = Demo(arguments);
    CHECK(run.exit_status == 2);
    CHECK(run.output.find("usage: farcall_demo") != std::string::npos);
  }
}

TEST_CASE("a report that cannot be written is refused before the work") {
  const Run run = Demo("--quick --json /nowhere/report.json");
  CHECK(run.exit_status == 1);
  CHECK(run.output == "farcall_demo: cannot write /nowhere/report.json\n");
}

}  // namespace
