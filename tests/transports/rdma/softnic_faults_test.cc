// Scripted faults: each kind does what it says, at the operation that was named, and a plan with
// chance in it does the same every time.
#include <vector>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/softnic_testing.h"

namespace farcall::softnic::testing {
namespace {

using namespace rdma;
using rdma::testing::Pair;
using Kind = Fault::Kind;

constexpr size_t kInto = size_t{512} << 10;

// Two ends whose device has one fault.
struct Stage {
  explicit Stage(FaultPlan plan)
      : device(Make({.runtime_folder = folder.path(), .faults = std::move(plan)})),
        pair(*device, "stage") {
    for (uint64_t i = 0; i < 32; ++i) pair.passive.Receive(i, kInto + i * 1024, 1024);
  }
  explicit Stage(const Fault& fault) : Stage(FaultPlan{.faults = {fault}}) {}
  Completion Done() { return pair.active.NextCompletion(pair.passive); }

  const Folder folder;
  const std::shared_ptr<Device> device;
  Pair pair;
};

TEST_CASE("the third send is dropped: those before it arrive, it fails, those behind are flushed") {
  Stage stage(Fault{.kind = Kind::kDrop, .on = Opcode::kSend, .nth = 3});
  for (uint64_t i = 1; i <= 5; ++i) stage.pair.active.Send(i, 0, 100);
  CHECK(stage.Done().status == CompletionStatus::kSuccess);
  CHECK(stage.Done().status == CompletionStatus::kSuccess);
  const Completion dropped = stage.Done();
  CHECK(dropped.wr_id == 3);
  CHECK(dropped.status == CompletionStatus::kRetryExceeded);
  CHECK(stage.Done().status == CompletionStatus::kFlushed);
  CHECK(stage.Done().status == CompletionStatus::kFlushed);
  size_t received = 0;
  for (const Completion& completion : stage.pair.passive.completions) {
    received += completion.status == CompletionStatus::kSuccess ? 1 : 0;
  }
  CHECK(received == 2);
}

TEST_CASE("faults fail with the status of their kind") {
  const auto [kind, status] = GENERATE(
      table<Kind, CompletionStatus>({{Kind::kNotReady, CompletionStatus::kReceiverNotReady},
                                     {Kind::kRefuse, CompletionStatus::kRemoteOperationError},
                                     {Kind::kDrop, CompletionStatus::kRetryExceeded}}));
  Stage stage(Fault{.kind = kind, .nth = 1});
  stage.pair.active.Send(1, 0, 100);
  CHECK(stage.Done().status == status);
  CHECK(stage.pair.active.pair->state() == QueuePairState::kError);
}

TEST_CASE("a delayed send holds up what is behind it, and all arrives in order") {
  Stage stage(Fault{.kind = Kind::kDelay, .nth = 1, .polls = 50});
  stage.pair.active.Send(1, 0, 100);
  stage.pair.active.Send(2, 0, 200);
  CHECK_FALSE(stage.pair.active.queue->Arm());  // it must go on polling
  for (int i = 0; i < 40; ++i) stage.pair.active.Turn();
  stage.pair.passive.Turn();
  CHECK(stage.pair.passive.completions.empty());
  CHECK(stage.pair.passive.NextCompletion(stage.pair.active).bytes == 100);
  CHECK(stage.pair.passive.NextCompletion(stage.pair.active).bytes == 200);
  CHECK(stage.Done().wr_id == 1);
  CHECK(stage.Done().wr_id == 2);
}

TEST_CASE("a late completion comes long after the message") {
  Stage stage(Fault{.kind = Kind::kLateCompletion, .nth = 1, .polls = 100});
  stage.pair.active.Send(1, 0, 100);
  for (int i = 0; i < 20; ++i) {
    stage.pair.passive.Turn();
    stage.pair.active.Turn();
  }
  CHECK(stage.pair.passive.completions.size() == 1);
  CHECK(stage.pair.active.completions.empty());
  CHECK(stage.Done().status == CompletionStatus::kSuccess);
}

TEST_CASE("a partial read leaves half of the bytes and an error") {
  Stage stage(Fault{.kind = Kind::kPartialRead, .on = Opcode::kRead, .nth = 1});
  Pair& pair = stage.pair;
  pair.passive.Fill(0, 1000, 7);
  pair.active.Read(1, 0, 1000, pair.passive.address(), pair.passive.region->rkey());
  CHECK(stage.Done().status == CompletionStatus::kRemoteOperationError);
  CHECK(pair.active.Holds(0, 500, 7));
  CHECK_FALSE(pair.active.Holds(0, 1000, 7));
}

TEST_CASE("a peer that leaves in the middle of a READ has left, and broke no rule") {
  Stage stage(FaultPlan{});
  Pair& pair = stage.pair;
  pair.active.Read(1, 0, kInto, pair.passive.address(), pair.passive.region->rkey());
  pair.active.Turn();
  REQUIRE(pair.active.completions.empty());  // a piece of it
  pair.passive.id->Disconnect();
  pair.passive.region.reset();
  for (int i = 0; i < 10 && pair.active.completions.empty(); ++i) pair.active.Turn();
  REQUIRE(pair.active.completions.size() == 1);
  CHECK(pair.active.completions.front().status != CompletionStatus::kRemoteAccessError);
}

TEST_CASE("a completion queue overruns by the plan") {
  Stage stage(Fault{.kind = Kind::kOverrun, .nth = 2});
  stage.pair.active.Send(1, 0, 100);
  stage.pair.active.Send(2, 0, 100);
  CHECK_FALSE(stage.pair.active.queue->status().ok());
  CHECK(stage.pair.active.pair->state() == QueuePairState::kError);
}

TEST_CASE("a device that is removed takes all of its connections with it") {
  Stage stage(Fault{.kind = Kind::kRemoval, .nth = 2});
  stage.pair.active.Send(1, 0, 100);
  stage.pair.active.Send(2, 0, 100);
  CHECK(stage.pair.active.pair->state() == QueuePairState::kError);
  CHECK(stage.pair.active.NextEvent(stage.pair.passive).kind ==
        ConnectionEvent::Kind::kDeviceRemoved);
  CHECK(stage.pair.active.NextEvent(stage.pair.passive).kind ==
        ConnectionEvent::Kind::kDisconnected);
  const ConnectionEvent::Kind kind = stage.pair.passive.NextEvent(stage.pair.active).kind;
  CHECK((kind == ConnectionEvent::Kind::kDeviceRemoved ||
         kind == ConnectionEvent::Kind::kDisconnected));
  CHECK_FALSE(stage.device->Listen(*stage.pair.active.channel, "again").ok());
}

TEST_CASE("chance falls the same way for the same seed, and another way for another") {
  const auto fates = [](uint64_t seed) {
    Faults faults({.seed = seed, .faults = {{.kind = Kind::kDrop, .one_in = 4}}});
    std::vector<bool> hits;
    hits.reserve(400);
    for (int i = 0; i < 400; ++i) hits.push_back(faults.Next(Opcode::kSend).has_value());
    return hits;
  };
  CHECK(fates(1) == fates(1));
  CHECK(fates(1) != fates(2));
  const auto hits = fates(1);
  CHECK(std::count(hits.begin(), hits.end(), true) > 50);
  CHECK(std::count(hits.begin(), hits.end(), true) < 150);
}

}  // namespace
}  // namespace farcall::softnic::testing
