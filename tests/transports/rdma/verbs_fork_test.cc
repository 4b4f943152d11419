// A process with connections forks: the child is refused whatever it tries with them, takes nothing
// along when it goes, and the parent's connection goes on, with the memory that the adapter knows.

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/verbs_testing.h"

namespace farcall::verbs::testing {
namespace {

using rdma::testing::Pair;

constexpr uint32_t kBytes = 20'000;

// The first thing that was not refused as it should be; 0: all were. No assertion of Catch2's: the
// report is the parent's.
int TryAll(rdma::Device& device, Pair& pair) {
  const auto refused = [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kFailedPrecondition;
  };
  size_t posted = 0;
  const rdma::SendRequest send{.sge_count = 1, .sges = {pair.active.At(0, 8), {}}};
  if (!refused(pair.active.pair->PostSend({&send, 1}, posted)) || posted != 0) return 1;
  const rdma::ReceiveRequest receive{.wr_id = 1, .sge = pair.active.At(0, 8)};
  if (!refused(pair.active.pair->PostReceive({&receive, 1}, posted)) || posted != 0) return 2;
  if (!refused(pair.active.domain->Allocate(4096, {}).status())) return 3;
  rdma::Completion completion;
  if (pair.active.queue->Poll({&completion, 1}) != 0) return 4;
  if (pair.active.channel->Next().has_value()) return 5;
  pair.active.pair->Fail();
  pair.active.id->Disconnect();
  if (!refused(device.CreateProtectionDomain().status())) return 6;
  if (!refused(device.CreateCompletionQueue(16).status())) return 7;
  if (!refused(device.CreateEventChannel().status())) return 8;
  return 0;
}

void Exchange(Pair& pair, uint32_t seed) {
  pair.passive.Receive(seed, 0, kBytes);
  pair.active.Fill(0, kBytes, seed);
  pair.active.Send(seed, 0, kBytes);
  CHECK(pair.active.NextCompletion(pair.passive).status == rdma::CompletionStatus::kSuccess);
  CHECK(pair.passive.NextCompletion(pair.active).bytes == kBytes);
  CHECK(pair.passive.Holds(0, kBytes, seed));
  pair.passive.Fill(kBytes, kBytes, seed + 100);
  pair.active.Read(seed, kBytes, kBytes, pair.passive.address(kBytes), pair.passive.region->rkey());
  CHECK(pair.active.NextCompletion(pair.passive).status == rdma::CompletionStatus::kSuccess);
  CHECK(pair.active.Holds(kBytes, kBytes, seed + 100));
}

TEST_CASE("a child of fork can do no harm to its parent's connection") {
  const std::shared_ptr<rdma::Device> device = Make();
  auto pair = std::make_unique<Pair>(*device, Host() + ":0");
  Exchange(*pair, 1);
  const bool clean = GENERATE(true, false);  // the child destroys what it inherited, or just goes
  int go[2];
  REQUIRE(::pipe(go) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int wrong = TryAll(*device, *pair);
    if (clean) pair.reset();
    char byte = 0;
    ::close(go[1]);
    [[maybe_unused]] const ssize_t got = ::read(go[0], &byte, 1);
    ::_exit(wrong);
  }
  ::close(go[0]);
  // While the child lives, the pages of both are shared where they were not written to.
  for (uint32_t seed = 2; seed < 20; ++seed) Exchange(*pair, seed);
  ::close(go[1]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  Exchange(*pair, 50);
}

}  // namespace
}  // namespace farcall::verbs::testing
