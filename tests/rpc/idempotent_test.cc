// Calls of idempotent methods whose connection is lost after they were sent.

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/rpc/scripted.h"
#include "farcall/tests/rpc/scripted_server.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kOk = absl::StatusCode::kOk;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

// Probe/Do may run once only; this one as often as it is sent.
std::shared_ptr<Asked> AskObject(ClientWorld& world, Builder<Ask> request,
                                 CallOptions options = {}) {
  auto asked = std::make_shared<Asked>();
  options.info = &asked->info;
  world.client->AsyncObject(std::move(request), options,
                            asio::bind_cancellation_slot(
                                asked->cancel.slot(), [asked](absl::StatusOr<Msg<Answer>> reply) {
                                  asked->End(std::move(reply));
                                }));
  return asked;
}

std::shared_ptr<Asked> AskObject(ClientWorld& world, const std::string& action,
                                 const CallOptions& options = {}) {
  return AskObject(world, Asking(*world.client, action), options);
}

std::string ActionOf(const Heard& request) {
  return flatbuffers::GetRoot<Ask>(request.message.body.data())->action()->str();
}

// A call of the channel's that `peer` has heard.
std::shared_ptr<Asked> HeardBy(Peer& peer, ClientWorld& world) {
  auto asked = AskObject(world, "x");
  world.Settle();
  peer.Next(FrameType::kRequest);
  return asked;
}

// Hears a request, and is gone.
void HearAndGo(ClientWorld& world, Peer& peer) {
  world.Settle();
  peer.Next(FrameType::kRequest);
  peer.Close();
  world.Settle();
}

TEST_CASE("an idempotent call whose connection is lost is made again by the next one") {
  ClientWorld world;
  const auto first = world.Ready();
  const auto asked = AskObject(world, "again");
  const auto once = world.Ask("once");
  world.Settle();
  const Heard before = first->Next(FrameType::kRequest);
  first->Next(FrameType::kRequest);
  world.Pass(milliseconds(400));
  first->Close();
  world.Settle();
  CheckEnded(*once, kUnavailable, Outcome::kUnknown);
  CHECK(asked->ended == 0);

  const auto second = world.Ready();
  const Heard again = second->Next(FrameType::kRequest);
  CHECK(second->silent());
  CHECK(again.header.method == before.header.method);
  CHECK(ActionOf(again) == "again");
  // What is left of its time.
  CHECK(again.header.timeout_ns == before.header.timeout_ns - 400'000'000);
  second->Say(ReplyTo(again), {}, AnswerBody(world, "hi"));
  world.Settle();
  CheckEnded(*asked, kOk, Outcome::kAnswered);
  CHECK((*asked->answer)->text()->str() == "hi");
  CHECK(world.stats().repeated == 1);
  CHECK(world.stats().unknown == 1);
}

TEST_CASE("metadata go with a call that is made again, however many they are") {
  for (const size_t bytes : {size_t{1}, size_t{3000}}) {
    ClientWorld world;
    const auto first = world.Ready();
    const std::string value(bytes, 'v');
    const auto asked = AskObject(world, "again", {.metadata = {{"k", value}}});
    world.Settle();
    const Heard kept = first->Next(FrameType::kRequest);  // its receiver still looks at it
    world.Pass(milliseconds(1));
    first->Close();
    world.Settle();
    const auto second = world.Ready();
    const Heard again = second->Next(FrameType::kRequest);
    CHECK(again.metadata.Find("k") == value);
    CHECK(kept.metadata.Find("k") == value);
    CHECK(DecodeHeader(kept.message.head.bytes())->timeout_ns == kept.header.timeout_ns);
    second->Say(ReplyTo(again), {}, AnswerBody(world, "hi"));
    world.Settle();
    CheckEnded(*asked, kOk, Outcome::kAnswered);
  }
}

TEST_CASE("a call is made again twice") {
  ClientWorld world;
  const auto first = world.Ready();
  const auto asked = AskObject(world, "kills whoever gets it", {.wait_for_ready = true});
  HearAndGo(world, *first);
  for (uint64_t repeats = 1; repeats <= 2; ++repeats) {
    CHECK(asked->ended == 0);
    // After a connection that was lost soon there is a pause.
    for (int i = 0; i < 100 && world.accepted.empty(); ++i) world.Pass(milliseconds(100));
    const auto next = world.Ready();
    CHECK(world.stats().repeated == repeats);
    HearAndGo(world, *next);
  }
  CheckEnded(*asked, kUnavailable, Outcome::kUnknown, "closed the connection");
  CHECK(world.stats().repeated == 2);
}

TEST_CASE("a call that could not be made again is not said to be not sent") {
  ClientWorld world;
  const auto peer = world.Ready();
  const auto refused = AskObject(world, "nobody is there", {.timeout = seconds(5)});
  const auto waits = AskObject(world, "too late", {.timeout = seconds(5), .wait_for_ready = true});
  const auto cancelled = AskObject(world, "cancelled", {.wait_for_ready = true});
  world.Settle();
  for (int i = 0; i < 3; ++i) peer->Next(FrameType::kRequest);
  world.Shut();
  peer->Close();
  world.Settle();
  CheckEnded(*refused, kUnavailable, Outcome::kUnknown, "it was sent before");
  CHECK(waits->ended == 0);
  cancelled->cancel.emit(asio::cancellation_type::terminal);
  world.Settle();
  CheckEnded(*cancelled, absl::StatusCode::kCancelled, Outcome::kUnknown);
  world.Pass(seconds(6));
  CheckEnded(*waits, absl::StatusCode::kDeadlineExceeded, Outcome::kUnknown);
  CHECK(world.stats().not_sent == 0);
  CHECK(world.stats().unknown == 3);
}

TEST_CASE("a refusal of the second sending does not tell of the first") {
  ClientWorld world;
  const auto first = world.Ready();
  const auto asked = AskObject(world, "x");
  HearAndGo(world, *first);
  const auto second = world.Ready();
  const Heard again = second->Next(FrameType::kRequest);
  second->Say(ReplyTo(again, absl::StatusCode::kResourceExhausted, kFlagNotRun));
  world.Settle();
  CheckEnded(*asked, absl::StatusCode::kResourceExhausted, Outcome::kUnknown);
}

TEST_CASE("a request that is large or has an attachment is not kept") {
  ClientWorld world;
  const auto peer = world.Ready();
  const auto large = AskObject(world, Asking(*world.client, "large", 0, kSmallPayloadBytes));
  Builder<Ask> with_attachment = Asking(*world.client, "attached");
  with_attachment.Attach(*with_attachment.AllocateAttachment(11));
  const auto attached = AskObject(world, std::move(with_attachment));
  Builder<Ask> in_much = world.client->NewObject(size_t{1} << 20);  // a small one in a large slot
  in_much.Finish(CreateAsk(in_much));
  const auto roomy = AskObject(world, std::move(in_much));
  world.Settle();
  for (int i = 0; i < 3; ++i) peer->Next(FrameType::kRequest);
  CHECK(world.pool->stats().leased_bytes == 0);
  peer->Close();
  world.Settle();
  CheckEnded(*large, kUnavailable, Outcome::kUnknown);
  CheckEnded(*attached, kUnavailable, Outcome::kUnknown);
  CheckEnded(*roomy, kUnavailable, Outcome::kUnknown);
  CHECK(world.stats().repeated == 0);
}

TEST_CASE("a call that was asked to end is not made again") {
  ClientWorld world;
  const auto peer = world.Ready();
  const auto asked = HeardBy(*peer, world);
  asked->cancel.emit(asio::cancellation_type::terminal);
  world.Settle();
  CheckEnded(*asked, absl::StatusCode::kCancelled, Outcome::kUnknown);
  peer->Close();
  world.Settle();
  const auto next = world.Ready();
  CHECK(next->silent());
}

TEST_CASE("the end of the channel is that of calls that were sent, idempotent or not") {
  ClientWorld world;
  const auto peer = world.Ready();
  const auto asked = HeardBy(*peer, world);
  world.client.reset();
  world.channel.reset();
  world.Settle();
  CheckEnded(*asked, absl::StatusCode::kCancelled, Outcome::kUnknown);
}

}  // namespace
}  // namespace farcall::testing
