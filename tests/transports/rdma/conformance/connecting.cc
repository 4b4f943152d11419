// How connections are made, refused and ended.
#include <catch2/catch.hpp>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/subject.h"

namespace farcall::rdma::testing {
namespace {

using Kind = ConnectionEvent::Kind;

// A listener at `passive`, and `active` with a queue pair, ready to connect.
struct Prepared {
  Prepared() : active(SubjectDevice(), {}), passive(SubjectDevice(), {}) {
    auto made = SubjectDevice().Listen(*passive.channel, FreshAddress());
    REQUIRE(made.ok());
    listener = *std::move(made);
    auto id = SubjectDevice().Resolve(*active.channel, listener->address());
    REQUIRE(id.ok());
    ConnectionEvent resolved = active.NextEvent(passive);
    CHECK(resolved.kind == Kind::kResolved);
    CHECK(resolved.id == id->get());
    active.MakePair(*std::move(id));
  }

  End active, passive;
  std::unique_ptr<AddressListener> listener;
};

TEST_CASE("private data and depths go both ways") {
  Prepared two;
  REQUIRE(two.active.id
              ->Connect(
                  {.private_data = Bytes("hello"), .responder_resources = 3, .initiator_depth = 5})
              .ok());
  ConnectionEvent request = two.passive.NextEvent(two.active);
  REQUIRE(request.kind == Kind::kConnectRequest);
  CHECK(request.listener == two.listener.get());
  CHECK(Text(request.private_data) == "hello");
  CHECK(request.responder_resources == 5);
  CHECK(request.initiator_depth == 3);
  two.passive.MakePair(std::move(request.request));
  REQUIRE(
      two.passive.id
          ->Accept(
              {.private_data = Bytes("welcome"), .responder_resources = 2, .initiator_depth = 7})
          .ok());
  const ConnectionEvent established = two.active.NextEvent(two.passive);
  REQUIRE(established.kind == Kind::kEstablished);
  CHECK(Text(established.private_data) == "welcome");
  if (SubjectTraits().negotiates_depths) {
    CHECK(established.responder_resources == 7);
    CHECK(established.initiator_depth == 2);
  }
  CHECK(two.passive.NextEvent(two.active).kind == Kind::kEstablished);
  CHECK(two.active.pair->state() == QueuePairState::kReadyToSend);
  CHECK(two.passive.pair->state() == QueuePairState::kReadyToSend);
  CHECK_FALSE(two.active.id->peer().empty());
}

TEST_CASE("private data of the most that is allowed, and more") {
  Prepared two;
  const size_t most = SubjectDevice().capabilities().max_private_data;
  const std::string full(most, 'p');
  CHECK(two.active.id->Connect({.private_data = Bytes(full + "x")}).code() ==
        absl::StatusCode::kInvalidArgument);
  REQUIRE(two.active.id->Connect({.private_data = Bytes(full)}).ok());
  CHECK(Text(two.passive.NextEvent(two.active).private_data) == full);
}

TEST_CASE("a request that is refused says why") {
  Prepared two;
  REQUIRE(two.active.id->Connect({}).ok());
  ConnectionEvent request = two.passive.NextEvent(two.active);
  REQUIRE(request.request != nullptr);
  REQUIRE(request.request->Reject(Bytes("full")).ok());
  const ConnectionEvent rejected = two.active.NextEvent(two.passive);
  CHECK(rejected.kind == Kind::kRejected);
  CHECK(Text(rejected.private_data) == "full");
  CHECK_FALSE(rejected.status.ok());
}

TEST_CASE("a request that is dropped is refused") {
  Prepared two;
  REQUIRE(two.active.id->Connect({}).ok());
  two.passive.NextEvent(two.active).request.reset();
  const Kind kind = two.active.NextEvent(two.passive).kind;
  CHECK((kind == Kind::kRejected || kind == Kind::kUnreachable));
}

TEST_CASE("where nobody listens, or no longer, a connect is unreachable") {
  Prepared two;
  two.listener.reset();
  REQUIRE(two.active.id->Connect({}).ok());
  const ConnectionEvent event = two.active.NextEvent(two.passive);
  CHECK(event.kind == Kind::kUnreachable);
  CHECK_FALSE(event.status.ok());
}

TEST_CASE("one address has one listener") {
  Prepared two;
  CHECK(SubjectDevice().Listen(*two.active.channel, two.listener->address()).status().code() ==
        absl::StatusCode::kUnavailable);
}

TEST_CASE("an active end that goes before the answer leaves no trace") {
  Prepared two;
  REQUIRE(two.active.id->Connect({}).ok());
  ConnectionEvent request = two.passive.NextEvent(two.active);
  two.active.pair.reset();
  two.active.id.reset();
  // Some say so at the first step, some at a later one.
  two.passive.id = std::move(request.request);
  auto pair = two.passive.id->CreateQueuePair(
      *two.passive.domain,
      {.send_queue = two.passive.queue.get(), .receive_queue = two.passive.queue.get()});
  if (pair.ok()) two.passive.pair = *std::move(pair);
  if (two.passive.pair != nullptr && two.passive.id->Accept({}).ok()) {
    CHECK(two.passive.NextEvent(two.active).kind == Kind::kDisconnected);
  }
  two.active.Turn();
  CHECK(two.active.events.empty());
}

TEST_CASE("calls out of order are refused") {
  Prepared two;
  CHECK(two.active.id->Accept({}).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(two.active.id->Reject({}).code() == absl::StatusCode::kFailedPrecondition);
  CHECK_FALSE(two.active.id->CreateQueuePair(*two.active.domain, {}).ok());
  REQUIRE(two.active.id->Connect({}).ok());
  CHECK(two.active.id->Connect({}).code() == absl::StatusCode::kFailedPrecondition);
  ConnectionEvent request = two.passive.NextEvent(two.active);
  CHECK(request.request->Accept({}).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(request.request->Connect({}).code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a request moves to another channel before it is accepted") {
  Prepared two;
  End third(SubjectDevice(), {});
  REQUIRE(two.active.id->Connect({}).ok());
  ConnectionEvent request = two.passive.NextEvent(two.active);
  REQUIRE(request.request->MoveTo(*third.channel).ok());
  third.MakePair(std::move(request.request));
  REQUIRE(third.id->Accept({}).ok());
  CHECK(two.active.NextEvent(third).kind == Kind::kEstablished);
  CHECK(third.NextEvent(two.active).kind == Kind::kEstablished);
  two.active.id->Disconnect();
  CHECK(third.NextEvent(two.active).kind == Kind::kDisconnected);
  two.passive.Turn();
  CHECK(two.passive.events.empty());
}

TEST_CASE("after a disconnect both sides are told once, and everything posted is flushed once") {
  Pair pair(SubjectDevice(), FreshAddress());
  for (uint64_t i = 0; i < 10; ++i) {
    pair.active.Receive(i, 0, 64);
    pair.passive.Receive(100 + i, 0, 64);
  }
  pair.active.id->Disconnect();
  pair.active.id->Disconnect();
  CHECK(pair.active.NextEvent(pair.passive).kind == Kind::kDisconnected);
  CHECK(pair.passive.NextEvent(pair.active).kind == Kind::kDisconnected);
  for (uint64_t i = 0; i < 10; ++i) {
    Completion flushed = pair.active.NextCompletion(pair.passive);
    CHECK(flushed.status == CompletionStatus::kFlushed);
    CHECK(flushed.wr_id == i);
    flushed = pair.passive.NextCompletion(pair.active);
    CHECK(flushed.status == CompletionStatus::kFlushed);
    CHECK(flushed.wr_id == 100 + i);
  }
  CHECK(pair.Quiet());
}

TEST_CASE("a peer whose objects are destroyed is a disconnect, in either order") {
  for (const bool pair_first : {true, false}) {
    Pair pair(SubjectDevice(), FreshAddress());
    pair.passive.Receive(1, 0, 64);
    if (pair_first) {
      pair.active.pair.reset();
      pair.active.id.reset();
    } else {
      pair.active.id.reset();
      pair.active.pair.reset();
    }
    CHECK(pair.passive.NextEvent(pair.active).kind == Kind::kDisconnected);
    CHECK(pair.passive.NextCompletion(pair.active).status == CompletionStatus::kFlushed);
    CHECK(pair.Quiet());
  }
}

TEST_CASE("what was sent before a disconnect and was acknowledged is delivered") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.passive.Receive(1, 0, 64);
  pair.active.Send(2, 0, 10);
  CHECK(pair.active.NextCompletion(pair.passive).status == CompletionStatus::kSuccess);
  pair.active.id->Disconnect();
  CHECK(pair.passive.NextCompletion(pair.active).bytes == 10);
}

TEST_CASE("many connections come and go") {
  for (int i = 0; i < 200; ++i) {
    Pair pair(SubjectDevice(), FreshAddress(), {.memory = 4096}, {.memory = 4096});
    pair.passive.Receive(1, 0, 64);
    pair.active.Send(2, 0, 10);
    REQUIRE(pair.passive.NextCompletion(pair.active).bytes == 10);
  }
}

}  // namespace
}  // namespace farcall::rdma::testing
