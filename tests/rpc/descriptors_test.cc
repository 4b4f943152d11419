// A process that has no file descriptor left: a status that says so, and all works once there are
// some.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <system_error>

#include "farcall/tests/rpc/probe.h"

namespace farcall::testing {
namespace {

// No descriptor can be opened.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(free);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(free);
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

void CheckSays(const absl::Status& status, const std::string& remedy) {
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains(remedy));
}

TEST_CASE("without descriptors: loops, channels and servers say so, and work once there are some") {
  Stage stage;
  Server server;
  const auto loop = std::make_shared<EventLoop>();
  {
    const NoDescriptors none;
    CHECK_THROWS_AS(EventLoop(), std::system_error);
    CheckSays(EventLoop::Create().status(), "ulimit -n");
    CheckSays(EventLoop::Create({.dedicated = true}).status(), "ulimit -n");
    CheckSays(Channel::Create(stage.transport, stage.endpoint).status(), "ulimit -n");
    const absl::Status listens = server.Listen(stage.transport, stage.endpoint).status();
    CheckSays(listens, "ulimit -n");
    CheckSays(listens, "loop 1 of 1 (ServerOptions::loops)");
    // Who brings a loop needs nothing.
    CHECK(Channel::Create(stage.transport, stage.endpoint, {.loop = loop}).ok());
  }
  absl::StatusOr<Channel> channel = Channel::Create(stage.transport, stage.endpoint);
  REQUIRE(channel.ok());
  AskT ask;
  CHECK(Probe::Client(*channel).Object(ask).ok());
  CHECK(server.Listen(stage.transport, *ParseEndpoint("loopback://other")).ok());
}

}  // namespace
}  // namespace farcall::testing
