// A system that has no thread left: a status that says so, and nothing else changes.

#include "farcall/rpc/resources.h"

#include <pthread.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "farcall/rpc/worker_pool.h"
#include "farcall/tests/rpc/probe.h"

namespace farcall::testing {
namespace {

// No thread can be started: there is no memory for a stack so large.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    ::pthread_getattr_default_np(&huge);
    ::pthread_attr_setstacksize(&huge, size_t{1} << 50);
    ::pthread_setattr_default_np(&huge);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

void CheckSays(const absl::Status& status, const std::string& remedy) {
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains(remedy));
}

bool TakesSignals() {
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return ::sigismember(&blocked, SIGTERM) == 0 && ::sigismember(&blocked, SIGINT) == 0;
}

TEST_CASE("the library's threads take no signals but those of their own faults") {
  sigset_t blocked;
  StartThread("a thread", [&] { ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked); }).join();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGALRM, SIGPIPE, SIGUSR1}) {
    CHECK(::sigismember(&blocked, signal) == 1);
  }
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    CHECK(::sigismember(&blocked, fault) == 0);
  }
  CHECK(TakesSignals());
}

TEST_CASE(
    "without threads: loops, channels and servers say so, and the caller still takes signals") {
  Stage stage;
  Server server;
  REQUIRE(TakesSignals());
  {
    const NoThreads none;
    CHECK_THROWS_AS(EventLoop(), std::system_error);
    CHECK(TakesSignals());
    CheckSays(EventLoop::Create().status(), "ulimit -u");
    CheckSays(Channel::Create(stage.transport, stage.endpoint).status(), "ulimit -u");
    CheckSays(server.Listen(stage.transport, stage.endpoint).status(), "ulimit -u");
    CheckSays(server.Add(Blocker::Bind(stage.blocker, {.blocking = true})),
              "ServerOptions::workers");
    CHECK(EventLoop::Create({.helper_thread = false}).ok());
    CHECK(TakesSignals());
  }
  CHECK(server.Add(Blocker::Bind(stage.blocker, {.blocking = true})).ok());
  CHECK(server.Listen(stage.transport, *ParseEndpoint("loopback://other")).ok());
}

}  // namespace
}  // namespace farcall::testing
