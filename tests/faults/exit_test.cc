// A process that ends while calls are under way.

#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>

#include "farcall/tests/faults/scene.h"
#include "farcall/tests/hostile/ground.h"

namespace farcall::faults {
namespace {

TEST_CASE("process exit with calls in flight, by every way out: no crash, no hang, nothing left") {
  const std::string how = GENERATE("return", "exit", "callback", "quick_exit", "_exit");
  INFO(how);
  const hostile::LogLines log;
  hostile::Ground ground;
  testing::Child child({Program("faults_exiting"), ground.endpoint.ToString(), how});
  REQUIRE(child.address() == "ready");
  // 16 by callbacks, one in a coroutine, one blocking.
  REQUIRE(testing::Eventually([&] { return ground.server.stats().calls_running >= 18; }));
  const int status = child.End(SIGTERM);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  // Its server notices, cancels what it did for it, and serves the others.
  CHECK(ground.Quiet());
  CHECK(testing::Eventually([&] { return ground.probe.cancelled >= 18; }));
  CHECK(ground.server.stats().calls_running <= 1);
  CHECK(ground.healthy->Trouble() == "");
}

}  // namespace
}  // namespace farcall::faults
