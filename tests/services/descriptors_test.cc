// A process without file descriptors: whatever fails says so.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "farcall/transports/dial.h"
#include "journal.rpc.h"

namespace farcall::testing {
namespace {

void CheckSays(const absl::Status& status, absl::StatusCode code) {
  CHECK(status.code() == code);
  CHECK_THAT(std::string(status.message()), Catch::Contains("ulimit -n"));
}

TEST_CASE("a name is not called unknown when descriptors are what is missing") {
  const auto loop = std::make_shared<EventLoop>();
  Server server({.external_loops = {loop}});
  const auto call = [&](const char* address) {
    absl::StatusOr<Channel> channel = Dial(address, {.loop = loop});
    if (!channel.ok()) return channel.status();
    return Journal::Client(*channel).Note(EntryT()).status();
  };
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(free);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(free);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const absl::Status listened = Listen(server, "tcp://localhost:0").status();
  const absl::Status dialled = Dial("tcp://localhost:7").status();
  const absl::Status by_name = call("tcp://localhost:7");
  const absl::Status by_number = call("tcp://127.0.0.1:7");
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);

  CheckSays(listened, absl::StatusCode::kUnavailable);
  CheckSays(dialled, absl::StatusCode::kResourceExhausted);
  CheckSays(by_name, absl::StatusCode::kUnavailable);
  CheckSays(by_number, absl::StatusCode::kUnavailable);
  CHECK(Listen(server, "tcp://localhost:0").ok());
}

}  // namespace
}  // namespace farcall::testing
