// The demo's command line; what it measures has its own tests.
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "farcall/bench/measure/child_process.h"

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
  for (const char* argument :
       {"--connect HOST", "--adapter NAME@ADDRESS", "--rounds N", "--first-round N", "--read FILE",
        "--load", "--quick", "--no-peers", "--json FILE", "--csv FILE", "--html FILE", "--help"}) {
    CHECK(run.output.find(argument) != std::string::npos);
  }
}

TEST_CASE("arguments that make no sense are refused with the usage") {
  for (const char* arguments :
       {"--fast", "--json", "--html", "quick", "--connect", "--adapter", "--adapter rxe0",
        "--adapter @1.2.3.4", "--adapter rxe0@", "--rounds", "--rounds x", "--rounds 0",
        "--first-round -1", "--read", "--load --connect a", "--adapter a@b --read c"}) {
    CAPTURE(arguments);
    const Run run = Demo(arguments);
    CHECK(run.exit_status == 2);
    CHECK(run.output.find("usage: farcall_demo") != std::string::npos);
  }
}

TEST_CASE("a report that cannot be written is refused before the work") {
  for (const std::string name : {"json", "csv", "html"}) {
    const Run run = Demo("--quick --" + name + " /nowhere/report." + name);
    CHECK(run.exit_status == 1);
    CHECK(run.output == "farcall_demo: cannot write /nowhere/report." + name + "\n");
  }
}

TEST_CASE("reports that cannot be read are named") {
  Run run = Demo("--read /nowhere/report.json");
  CHECK(run.exit_status == 1);
  CHECK(run.output.find("cannot read /nowhere/report.json") != std::string::npos);
  run = Demo("--read /proc/version");
  CHECK(run.exit_status == 1);
  CHECK(run.output.find("/proc/version: not a report of the demo") != std::string::npos);
}

TEST_CASE("where nobody serves, --connect says what to start") {
  const Run run = Demo("--quick --connect 127.0.0.1");
  CHECK(run.exit_status == 1);
  CHECK(run.output.find("nothing answers on 127.0.0.1; start 'sh bench/demo.sh --server' there") !=
        std::string::npos);
}

TEST_CASE("two hosts: what is there is measured, and what is not says why") {
  using farcall::bench::ChildProcess;
  // In the guest there is an adapter (tests/guest/programs).
  const char* const device = std::getenv("FARCALL_GUEST_DEVICE");
  const std::string host = device != nullptr ? std::getenv("FARCALL_GUEST_ADDRESS") : "127.0.0.1";
  const auto server = ChildProcess::Start(
      {.command = {FARCALL_DEMO_SERVER, host}, .core = {}, .ready_prefix = "ready"});
  REQUIRE(server.ok());
  const Run run = Demo("--quick --rounds 1 --connect " + host);
  CAPTURE(run.output);
  CHECK(run.exit_status == 0);
  for (const char* said : {"tcp busy", "tcp event", "latency 1 MiB", "bulk_reply 1 MiB"}) {
    CHECK(run.output.find(said) != std::string::npos);
  }
  const bool measured = run.output.find("us over rdma/adapter busy") != std::string::npos;
  const bool left_out = run.output.find("rdma busy is left out: ") != std::string::npos;
  CHECK(measured == (device != nullptr));
  CHECK(left_out == (device == nullptr));
}

}  // namespace
