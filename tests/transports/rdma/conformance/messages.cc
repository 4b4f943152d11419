// SEND and RECV: content, order, completions, receivers that are not ready.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/subject.h"

namespace farcall::rdma::testing {
namespace {

constexpr size_t kInto = size_t{512} << 10;  // the half of an end's memory to receive into

TEST_CASE("messages of every size arrive as they were sent, in order") {
  Pair pair(SubjectDevice(), FreshAddress());
  const uint32_t most = std::min<uint32_t>(SubjectDevice().capabilities().max_send_bytes, kInto);
  const uint32_t granted = pair.active.pair->max_inline();
  for (End* from : {&pair.active, &pair.passive}) {
    End& to = from == &pair.active ? pair.passive : pair.active;
    uint64_t number = 0;
    for (const uint32_t bytes : {0U, 1U, 63U, 64U, 65U, granted, 239U, 240U, 241U, 4096U, 8191U,
                                 8192U, 65'535U, most - 1, most}) {
      INFO(bytes << " bytes");
      ++number;
      from->Fill(0, bytes, bytes + 1);
      to.Receive(number, kInto, most);
      from->Send(number + 1000, 0, bytes);
      const Completion received = to.NextCompletion(*from);
      CHECK(received.status == CompletionStatus::kSuccess);
      CHECK(received.opcode == Opcode::kReceive);
      CHECK(received.wr_id == number);
      CHECK(received.bytes == bytes);
      CHECK(received.queue_pair == to.pair->number());
      CHECK(to.Holds(kInto, bytes, bytes + 1));
      const Completion sent = from->NextCompletion(to);
      CHECK(sent.status == CompletionStatus::kSuccess);
      CHECK(sent.opcode == Opcode::kSend);
      CHECK(sent.wr_id == number + 1000);
    }
  }
  CHECK(pair.Quiet());
}

TEST_CASE("a list is gathered from two segments, inline or not, and the memory may change after") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.passive.Receive(1, kInto, 4096);
  pair.passive.Receive(2, kInto + 4096, 4096);
  std::string head = "head";
  SendRequest requests[2];
  requests[0].inlined = true;
  requests[0].sge_count = 2;
  requests[0].sges[0] = {Bytes(head).data(), 4, 0};  // memory that no device knows
  requests[0].sges[1] = {Bytes(head).data(), 2, 0};
  requests[1].sge_count = 2;
  std::memcpy(pair.active.memory(0), "far", 3);
  std::memcpy(pair.active.memory(100), "call", 4);
  requests[1].sges[0] = pair.active.At(0, 3);
  requests[1].sges[1] = pair.active.At(100, 4);
  size_t posted = 0;
  REQUIRE(pair.active.pair->PostSend(requests, posted).ok());
  CHECK(posted == 2);
  head = "XXXX";
  CHECK(pair.passive.NextCompletion(pair.active).bytes == 6);
  CHECK(pair.passive.NextCompletion(pair.active).bytes == 7);
  CHECK(std::memcmp(pair.passive.memory(kInto), "headhe", 6) == 0);
  CHECK(std::memcmp(pair.passive.memory(kInto + 4096), "farcall", 7) == 0);
}

TEST_CASE("an unsignaled send says nothing, and gives its slot back with a later completion") {
  Pair pair(SubjectDevice(), FreshAddress(), {.send_depth = 8});
  for (uint64_t i = 0; i < 16; ++i) pair.passive.Receive(i, kInto, 64);
  for (uint64_t i = 0; i < 7; ++i) pair.active.Send(i, 0, 8, false);
  pair.active.Send(7, 0, 8, true);
  SendRequest more;
  CHECK(pair.active.Post(more).code() == absl::StatusCode::kResourceExhausted);
  for (uint64_t i = 0; i < 8; ++i) {
    CHECK(pair.passive.NextCompletion(pair.active).wr_id == i);
  }
  CHECK(pair.active.NextCompletion(pair.passive).wr_id == 7);
  CHECK(pair.Quiet());
  for (uint64_t i = 0; i < 8; ++i) pair.active.Send(i, 0, 8, false);  // all eight are free
}

TEST_CASE("more bytes than the device holds in between wait, and all arrive") {
  constexpr uint32_t kBytes = 48'000;
  Pair pair(SubjectDevice(), FreshAddress(), {.memory = 60 * kBytes}, {.memory = 60 * kBytes});
  for (uint32_t i = 0; i < 60; ++i) {
    pair.active.Fill(i * kBytes, kBytes, i);
    pair.passive.Receive(i, i * kBytes, kBytes);
  }
  for (uint64_t i = 0; i < 60; ++i) pair.active.Send(i, i * kBytes, kBytes);
  for (uint64_t i = 0; i < 60; ++i) {
    const Completion received = pair.passive.NextCompletion(pair.active);
    CHECK(received.wr_id == i);
    CHECK(received.bytes == kBytes);
    CHECK(pair.passive.Holds(i * kBytes, kBytes, static_cast<uint32_t>(i)));
    CHECK(pair.active.NextCompletion(pair.passive).wr_id == i);
  }
}

TEST_CASE("inline sends that wait behind a large one are what they were when posted") {
  Pair pair(SubjectDevice(), FreshAddress());
  const uint32_t large = SubjectDevice().capabilities().max_send_bytes / 2;
  for (uint64_t i = 0; i < 20; ++i) {
    pair.passive.Receive(i, i < 10 ? kInto : kInto + i * 64, i < 10 ? large : 64);
  }
  for (uint64_t i = 0; i < 10; ++i) pair.active.Send(i, 0, std::min<uint32_t>(large, kInto), false);
  for (uint64_t i = 10; i < 20; ++i) {
    SendRequest request;
    request.wr_id = i;
    request.inlined = true;
    request.sge_count = 1;
    auto letter = static_cast<std::byte>(i);
    request.sges[0] = {&letter, 1, 0};
    REQUIRE(pair.active.Post(request).ok());
    letter = std::byte{0xff};
  }
  for (uint64_t i = 0; i < 20; ++i) CHECK(pair.passive.NextCompletion(pair.active).wr_id == i);
  for (uint64_t i = 10; i < 20; ++i) {
    CHECK(*pair.passive.memory(kInto + i * 64) == static_cast<std::byte>(i));
    CHECK(pair.active.NextCompletion(pair.passive).wr_id == i);
  }
}

TEST_CASE("without a receive a send fails with RNR when nobody is patient") {
  if (!SubjectDevice().capabilities().acknowledges) return;
  Pair pair(SubjectDevice(), FreshAddress());
  pair.active.Send(1, 0, 8);
  pair.active.Send(2, 0, 8, false);
  const Completion refused = pair.active.NextCompletion(pair.passive);
  CHECK(refused.wr_id == 1);
  CHECK(refused.status == CompletionStatus::kReceiverNotReady);
  const Completion flushed = pair.active.NextCompletion(pair.passive);
  CHECK(flushed.wr_id == 2);
  CHECK(flushed.status == CompletionStatus::kFlushed);
  CHECK(pair.active.pair->state() == QueuePairState::kError);
}

TEST_CASE("with rnr_retry 7 a send waits for its receive, however long") {
  if (!SubjectDevice().capabilities().acknowledges) return;
  Pair pair(SubjectDevice(), FreshAddress(), {}, {.rnr_retry = 7});
  pair.active.Fill(0, 100, 3);
  pair.active.Send(1, 0, 100);
  CHECK(pair.Quiet());
  pair.passive.Receive(9, kInto, 100);
  CHECK(pair.passive.NextCompletion(pair.active).wr_id == 9);
  CHECK(pair.passive.Holds(kInto, 100, 3));
  CHECK(pair.active.NextCompletion(pair.passive).status == CompletionStatus::kSuccess);
}

TEST_CASE("with finite retries a send waits, and then fails") {
  if (!SubjectDevice().capabilities().acknowledges) return;
  Pair pair(SubjectDevice(), FreshAddress(), {}, {.rnr_retry = 3});
  pair.active.Send(1, 0, 100);
  CHECK(pair.active.NextCompletion(pair.passive).status == CompletionStatus::kReceiverNotReady);
}

TEST_CASE("a message longer than its receive ends the connection, and both sides are told why") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.passive.Receive(1, kInto, 16);
  pair.passive.Receive(2, kInto, 16);
  pair.active.Send(3, 0, 17);
  const Completion received = pair.passive.NextCompletion(pair.active);
  CHECK(received.wr_id == 1);
  CHECK(Says(received.status, CompletionStatus::kLocalLengthError));
  CHECK(pair.passive.NextCompletion(pair.active).status == CompletionStatus::kFlushed);
  CHECK(pair.passive.pair->state() == QueuePairState::kError);
  if (!SubjectDevice().capabilities().acknowledges) return;
  CHECK(Says(pair.active.NextCompletion(pair.passive).status,
             CompletionStatus::kRemoteInvalidRequest));
  CHECK(pair.active.pair->state() == QueuePairState::kError);
}

TEST_CASE("a request beyond what was granted is not taken, and those before it are") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.passive.Receive(1, kInto, 16);
  SendRequest requests[2];
  requests[0].sge_count = 1;
  requests[0].sges[0] = pair.active.At(0, 4);
  requests[1].inlined = true;
  requests[1].sge_count = 1;
  requests[1].sges[0] = pair.active.At(0, pair.active.pair->max_inline() + 1);
  size_t posted = 0;
  CHECK(pair.active.pair->PostSend(requests, posted).code() == absl::StatusCode::kInvalidArgument);
  CHECK(posted == 1);
  CHECK(pair.passive.NextCompletion(pair.active).bytes == 4);
  requests[1].inlined = false;
  requests[1].sge_count = kMaxSges + 1;
  CHECK(pair.active.Post(requests[1]).code() == absl::StatusCode::kInvalidArgument);
  requests[1].sge_count = 1;
  requests[1].opcode = Opcode::kReceive;
  CHECK(pair.active.Post(requests[1]).code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace farcall::rdma::testing
