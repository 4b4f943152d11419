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
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(free);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(free);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);

  const absl::Status listened = Listen(server, "tcp://localhost:0").status();
  const absl::Status dialled = Dial("tcp://localhost:7").status();
  for (const char* address : {"tcp://localhost:7", "tcp://127.0.0.1:7"}) {
    absl::StatusOr<Channel> channel = Dial(address, {.loop = loop});
    REQUIRE(channel.ok());
    CheckSays(Journal::Client(*channel).Note(EntryT()).status(), absl::StatusCode::kUnavailable);
  }

  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CheckSays(listened, absl::StatusCode::kUnavailable);
  CheckSays(dialled, absl::StatusCode::kResourceExhausted);
  CHECK(Listen(server, "tcp://localhost:0").ok());
}

}  // namespace
}  // namespace farcall::testing
