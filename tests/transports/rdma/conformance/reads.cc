// READ: content, many at once, beside messages.
#include <algorithm>
#include <catch2/catch.hpp>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/subject.h"

namespace farcall::rdma::testing {
namespace {

// `bytes`, or what a READ of the device can have.
uint32_t Readable(size_t bytes) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(bytes, SubjectDevice().capabilities().max_read_bytes));
}

TEST_CASE("reads of every size bring the bytes, without any help of the owner") {
  constexpr size_t kMemory = size_t{3} << 20;
  Pair pair(SubjectDevice(), FreshAddress(), {.memory = kMemory}, {.memory = kMemory});
  for (const uint32_t bytes : {0U, 1U, 7U, 64U, 4096U, 65'535U, 65'536U, 262'143U, 262'144U,
                               262'145U, 1U << 20, (3U << 20) - 1, 3U << 20}) {
    INFO(bytes << " bytes");
    if (Readable(bytes) < bytes) {
      SendRequest request;
      request.opcode = Opcode::kRead;
      request.sge_count = 1;
      request.sges[0] = pair.active.At(0, bytes);
      CHECK(pair.active.Post(request).code() == absl::StatusCode::kInvalidArgument);
      continue;
    }
    pair.passive.Fill(0, bytes, bytes + 3);
    pair.active.Read(5, 0, bytes, pair.passive.address(), pair.passive.region->rkey());
    Completion completion;
    size_t count = 0;
    for (int i = 0; i < 10'000'000 && count == 0; ++i) {
      count = pair.active.queue->Poll(std::span(&completion, 1));
    }
    REQUIRE(count == 1);
    CHECK(completion.status == CompletionStatus::kSuccess);
    CHECK(completion.opcode == Opcode::kRead);
    CHECK(completion.wr_id == 5);
    CHECK(pair.active.Holds(0, bytes, bytes + 3));
  }
}

TEST_CASE("a read scatters into as many segments as the device says") {
  Pair pair(SubjectDevice(), FreshAddress());
  const uint32_t segments = SubjectDevice().capabilities().max_read_sges;
  const uint32_t bytes = Readable(300'000);
  pair.passive.Fill(0, bytes, 9);
  SendRequest request;
  request.opcode = Opcode::kRead;
  request.remote_address = pair.passive.address();
  request.rkey = pair.passive.region->rkey();
  request.sge_count = static_cast<uint8_t>(segments);
  request.sges[0] = pair.active.At(0, bytes - 1000);
  request.sges[1] = pair.active.At(bytes - 1000, 1000);
  if (segments == 1) request.sges[0] = pair.active.At(0, bytes);
  REQUIRE(pair.active.Post(request).ok());
  CHECK(pair.active.NextCompletion(pair.passive).status == CompletionStatus::kSuccess);
  CHECK(pair.active.Holds(0, bytes, 9));
  request.sge_count = static_cast<uint8_t>(segments + 1);
  CHECK(pair.active.Post(request).code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("requests complete in the order of posting, whatever they are") {
  Pair pair(SubjectDevice(), FreshAddress());
  for (uint64_t i = 0; i < 8; ++i) pair.passive.Receive(i, 0, 64);
  for (uint64_t i = 0; i < 16; i += 2) {
    pair.active.Read(i, 4096 * i, 60'000, pair.passive.address(), pair.passive.region->rkey());
    pair.active.Send(i + 1, 0, 8);
  }
  for (uint64_t i = 0; i < 16; ++i) {
    const Completion completion = pair.active.NextCompletion(pair.passive);
    CHECK(completion.wr_id == i);
    CHECK(completion.opcode == (i % 2 == 0 ? Opcode::kRead : Opcode::kSend));
  }
}

TEST_CASE("a message does not wait for a large read that was posted before it") {
  constexpr size_t kMemory = size_t{64} << 20;
  Pair pair(SubjectDevice(), FreshAddress(), {.memory = kMemory}, {.memory = kMemory});
  pair.passive.Receive(1, 0, 64);
  pair.active.Read(2, 0, Readable(kMemory), pair.passive.address(), pair.passive.region->rkey());
  pair.active.Send(3, 0, 8);
  CHECK(pair.passive.NextCompletion(pair.active).wr_id == 1);
  CHECK(pair.active.NextCompletion(pair.passive).wr_id == 2);
  CHECK(pair.active.NextCompletion(pair.passive).wr_id == 3);
}

TEST_CASE("both sides read from each other at once") {
  Pair pair(SubjectDevice(), FreshAddress());
  const uint32_t half = Readable(pair.active.options.memory / 2);
  pair.active.Fill(0, half, 1);
  pair.passive.Fill(0, half, 2);
  pair.active.Read(1, half, half, pair.passive.address(), pair.passive.region->rkey());
  pair.passive.Read(1, half, half, pair.active.address(), pair.active.region->rkey());
  CHECK(pair.active.NextCompletion(pair.passive).status == CompletionStatus::kSuccess);
  CHECK(pair.passive.NextCompletion(pair.active).status == CompletionStatus::kSuccess);
  CHECK(pair.active.Holds(half, half, 2));
  CHECK(pair.passive.Holds(half, half, 1));
}

}  // namespace
}  // namespace farcall::rdma::testing
