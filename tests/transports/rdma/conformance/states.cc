// States of a queue pair, its queues' bounds, the end of it all; completion queues that overrun.
#include <catch2/catch.hpp>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/subject.h"

namespace farcall::rdma::testing {
namespace {

TEST_CASE("before it is connected a queue pair takes receives and no sends") {
  End passive(SubjectDevice(), {});
  End active(SubjectDevice(), {});
  auto listener = SubjectDevice().Listen(*passive.channel, FreshAddress());
  REQUIRE(listener.ok());
  auto id = SubjectDevice().Resolve(*active.channel, (*listener)->address());
  REQUIRE(id.ok());
  active.NextEvent(passive);
  active.MakePair(*std::move(id));
  CHECK(active.pair->state() == QueuePairState::kInit);
  active.Receive(1, 0, 64);
  CHECK(active.Post(SendRequest{}).code() == absl::StatusCode::kFailedPrecondition);
  active.pair->Fail();
  CHECK(active.NextCompletion(passive).wr_id == 1);
}

TEST_CASE("the receive queue has its depth, and a slot is free when its completion was polled") {
  Pair pair(SubjectDevice(), FreshAddress(), {}, {.receive_depth = 4});
  for (uint64_t i = 0; i < 4; ++i) pair.passive.Receive(i, 0, 64);
  const ReceiveRequest more{9, pair.passive.At(0, 64)};
  CHECK(pair.passive.Post(more).code() == absl::StatusCode::kResourceExhausted);
  pair.active.Send(1, 0, 8);
  CHECK(pair.passive.NextCompletion(pair.active).wr_id == 0);
  CHECK(pair.passive.Post(more).ok());
  CHECK(pair.passive.Post(more).code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("in ERR everything outstanding and everything posted later is flushed, once each") {
  Pair pair(SubjectDevice(), FreshAddress(), {}, {.rnr_retry = 7});
  for (uint64_t i = 0; i < 5; ++i) pair.active.Receive(i, 0, 64);
  // Without acknowledgements they are done before they are received.
  const uint64_t sends = SubjectDevice().capabilities().acknowledges ? 5 : 0;
  for (uint64_t i = 10; i < 10 + sends; ++i) pair.active.Send(i, 0, 8, i % 2 == 0);
  pair.active.pair->Fail();
  pair.active.pair->Fail();
  CHECK(pair.active.pair->state() == QueuePairState::kError);
  pair.active.Receive(5, 0, 64);
  pair.active.Send(15, 0, 8, false);
  std::vector<bool> seen(16);
  for (uint64_t i = 0; i < 7 + sends; ++i) {
    const Completion flushed = pair.active.NextCompletion(pair.passive);
    CHECK(flushed.status == CompletionStatus::kFlushed);
    REQUIRE(flushed.wr_id < seen.size());
    CHECK_FALSE(seen[flushed.wr_id]);
    seen[flushed.wr_id] = true;
  }
  pair.Quiet();
  CHECK(pair.active.completions.empty());
}

TEST_CASE("sends to a peer in ERR are not answered") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.passive.Receive(1, 0, 64);
  pair.passive.pair->Fail();
  pair.active.Send(2, 0, 8);
  CHECK(Says(pair.active.NextCompletion(pair.passive).status, CompletionStatus::kRetryExceeded));
  CHECK(pair.active.pair->state() == QueuePairState::kError);
}

TEST_CASE("reads from a peer in ERR are not answered") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.passive.pair->Fail();
  pair.active.Read(2, 0, 64, pair.passive.address(), pair.passive.region->rkey());
  CHECK(Says(pair.active.NextCompletion(pair.passive).status, CompletionStatus::kRetryExceeded));
}

TEST_CASE("a completion queue that overruns is dead, and its queue pairs with it") {
  Pair pair(SubjectDevice(), FreshAddress(), {.completion_depth = 4});
  CHECK(pair.active.queue->status().ok());
  // More than an adapter that rounds the depth up can hold.
  for (uint64_t i = 0; i < 64; ++i) pair.active.Receive(i, 0, 64);
  pair.active.pair->Fail();
  const auto dead = [&] { return !pair.active.queue->status().ok(); };
  CHECK(TurnUntil(pair.passive, pair.passive, dead));
  CHECK(pair.active.pair->state() == QueuePairState::kError);
}

TEST_CASE("completions of a queue pair vanish with it") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.active.Receive(1, 0, 64);
  pair.active.pair->Fail();
  pair.active.pair.reset();
  Completion completion;
  CHECK(pair.active.queue->Poll(std::span(&completion, 1)) == 0);
}

TEST_CASE("objects may go before those that are made from them") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.active.queue.reset();
  pair.active.domain.reset();
  pair.active.channel.reset();
  pair.active.region.reset();
  pair.active.pair.reset();
  pair.active.id.reset();
  CHECK(pair.passive.pair->state() != QueuePairState::kInit);
}

TEST_CASE("queues of impossible depth are refused") {
  CHECK_FALSE(SubjectDevice().CreateCompletionQueue(0).ok());
  CHECK_FALSE(SubjectDevice()
                  .CreateCompletionQueue(SubjectDevice().capabilities().max_completion_depth + 1)
                  .ok());
}

}  // namespace
}  // namespace farcall::rdma::testing
