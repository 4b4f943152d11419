// Keys: of local memory and of the peer's; bounds, access, staleness; memory windows.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <thread>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/subject.h"

namespace farcall::rdma::testing {
namespace {

CompletionStatus StatusOfRead(Pair& pair, uint64_t address, uint32_t rkey, uint32_t bytes = 64) {
  pair.active.Read(1, 0, bytes, address, rkey);
  return pair.active.NextCompletion(pair.passive).status;
}

CompletionStatus StatusOfSend(Pair& pair, const Sge& sge) {
  pair.passive.Receive(1, 0, 4096);
  SendRequest request;
  request.sge_count = 1;
  request.sges[0] = sge;
  REQUIRE(pair.active.Post(request).ok());
  return pair.active.NextCompletion(pair.passive).status;
}

TEST_CASE("a send from memory that its key does not cover fails, and ends the connection") {
  Pair pair(SubjectDevice(), FreshAddress());
  const Sge good = pair.active.At(0, 64);
  Sge bad = good;
  SECTION("no such key") { bad.lkey = good.lkey ^ 0x5a5a5a; }
  SECTION("no key") { bad.lkey = 0; }
  SECTION("in front of it") { bad.address = good.address - 1; }
  SECTION("behind it") { bad.address = good.address + pair.active.options.memory - 63; }
  SECTION("of another domain") { bad.lkey = 0xffffffff; }
  CHECK(Says(StatusOfSend(pair, bad), CompletionStatus::kLocalProtectionError));
  CHECK(pair.active.pair->state() == QueuePairState::kError);
}

TEST_CASE("the last byte of a region is good, and a key that was deregistered is not") {
  Pair pair(SubjectDevice(), FreshAddress());
  CHECK(StatusOfSend(pair, pair.active.At(pair.active.options.memory - 64, 64)) ==
        CompletionStatus::kSuccess);
  auto other = pair.active.domain->Allocate(4096, {});
  REQUIRE(other.ok());
  const Sge sge{(*other)->memory().data(), 64, (*other)->lkey()};
  other->reset();
  // As a new region is likely to get the same place.
  auto again = pair.active.domain->Allocate(4096, {});
  REQUIRE(again.ok());
  CHECK((*again)->lkey() != sge.lkey);
  CHECK(Says(StatusOfSend(pair, sge), CompletionStatus::kLocalProtectionError));
}

TEST_CASE("memory of the caller's own is sent from when it is registered") {
  Pair pair(SubjectDevice(), FreshAddress());
  std::vector<std::byte> mine(256, std::byte{7});
  auto region = pair.active.domain->Register(mine, {});
  REQUIRE(region.ok());
  CHECK(StatusOfSend(pair, {mine.data(), 256, (*region)->lkey()}) == CompletionStatus::kSuccess);
  CHECK(pair.passive.memory()[255] == std::byte{7});
  const auto offered = pair.active.domain->Register(mine, {.remote_read = true});
  CHECK(offered.ok() == SubjectDevice().capabilities().remote_read_anywhere);
  CHECK_FALSE(pair.active.domain->Register({}, {}).ok());
  CHECK_FALSE(pair.active.domain->Allocate(0, {}).ok());
}

TEST_CASE("a receive into memory that may not be written fails on both sides") {
  Pair pair(SubjectDevice(), FreshAddress());
  auto constant = pair.passive.domain->Allocate(4096, {});
  REQUIRE(constant.ok());
  REQUIRE(
      pair.passive.Post(ReceiveRequest{1, {(*constant)->memory().data(), 64, (*constant)->lkey()}})
          .ok());
  pair.active.Send(2, 0, 64);
  CHECK(Says(pair.passive.NextCompletion(pair.active).status,
             CompletionStatus::kLocalProtectionError));
  if (!SubjectDevice().capabilities().acknowledges) return;
  CHECK(Says(pair.active.NextCompletion(pair.passive).status,
             CompletionStatus::kRemoteOperationError));
}

TEST_CASE("a read takes what the key covers, to the last byte") {
  Pair pair(SubjectDevice(), FreshAddress());
  const size_t end = pair.passive.options.memory;
  pair.passive.Fill(end - 64, 64, 4);
  CHECK(StatusOfRead(pair, pair.passive.address(end - 64), pair.passive.region->rkey()) ==
        CompletionStatus::kSuccess);
  CHECK(pair.active.Holds(0, 64, 4));
}

TEST_CASE("a read of what the key does not cover fails, and ends the connection") {
  Pair pair(SubjectDevice(), FreshAddress());
  const uint32_t good = pair.passive.region->rkey();
  const uint64_t start = pair.passive.address();
  const uint64_t end = start + pair.passive.options.memory;
  CompletionStatus status = CompletionStatus::kSuccess;
  SECTION("no such key") { status = StatusOfRead(pair, start, good ^ 0x5a5a5a); }
  SECTION("no key") { status = StatusOfRead(pair, start, 0); }
  SECTION("the largest key") { status = StatusOfRead(pair, start, UINT32_MAX); }
  SECTION("one byte in front") { status = StatusOfRead(pair, start - 1, good); }
  SECTION("one byte behind") { status = StatusOfRead(pair, end - 63, good); }
  SECTION("far behind") { status = StatusOfRead(pair, end + 4096, good); }
  SECTION("round the end of the address space") {
    status = StatusOfRead(pair, UINT64_MAX - 8, good);
  }
  SECTION("nowhere") { status = StatusOfRead(pair, 0, good); }
  CHECK(Says(status, CompletionStatus::kRemoteAccessError));
  CHECK(pair.active.pair->state() == QueuePairState::kError);
}

TEST_CASE("regions without remote rights, gone, or of another connection are not read") {
  Pair pair(SubjectDevice(), FreshAddress());
  Pair others(SubjectDevice(), FreshAddress());
  CompletionStatus status = CompletionStatus::kRemoteAccessError;
  SECTION("without rights") {
    if (!SubjectTraits().checks_rights) return;
    auto secret = pair.passive.domain->Allocate(4096, {.local_write = true});
    REQUIRE(secret.ok());
    CHECK((*secret)->rkey() == 0);
    status = StatusOfRead(pair, reinterpret_cast<uintptr_t>((*secret)->memory().data()),
                          (*secret)->lkey());
  }
  SECTION("gone") {
    auto offered = pair.passive.domain->Allocate(4096, {.remote_read = true});
    REQUIRE(offered.ok());
    const auto address = reinterpret_cast<uintptr_t>((*offered)->memory().data());
    const uint32_t rkey = (*offered)->rkey();
    REQUIRE(StatusOfRead(pair, address, rkey) == CompletionStatus::kSuccess);
    offered->reset();
    status = StatusOfRead(pair, address, rkey);
  }
  SECTION("of another connection") {
    status = StatusOfRead(pair, others.passive.address(), others.passive.region->rkey() + 0x10000);
    CHECK(others.Quiet());
  }
  CHECK(Says(status, CompletionStatus::kRemoteAccessError));
}

TEST_CASE("a region allocated after the connection was made can be read at once") {
  Pair pair(SubjectDevice(), FreshAddress());
  for (int i = 0; i < 100; ++i) {
    auto offered = pair.passive.domain->Allocate(8192, {.local_write = true, .remote_read = true});
    REQUIRE(offered.ok());
    (*offered)->memory()[8191] = static_cast<std::byte>(i);
    pair.active.memory()[0] = std::byte{0xff};
    REQUIRE(StatusOfRead(pair, reinterpret_cast<uintptr_t>(&(*offered)->memory()[8191]),
                         (*offered)->rkey(), 1) == CompletionStatus::kSuccess);
    CHECK(pair.active.memory()[0] == static_cast<std::byte>(i));
  }
}

TEST_CASE("regions and windows come and go on another thread while the connection is in use") {
  Pair pair(SubjectDevice(), FreshAddress());
  pair.passive.Fill(0, 4096, 3);
  constexpr uint64_t kCalls = 2000;
  std::atomic<uint64_t> calls{0};
  std::atomic<bool> failed{false};
  std::thread other([&] {
    for (uint64_t last = kCalls; last != kCalls - 1;) {
      if (calls.load() == last) continue;  // one round a call
      last = std::min(calls.load(), kCalls - 1);
      for (End* end : {&pair.active, &pair.passive}) {
        const auto offered = end->domain->Allocate(8192, {.remote_read = true});
        const auto own = end->domain->Allocate(8192, {.local_write = true});
        if (!offered.ok() || !own.ok()) failed = true;
        if (SubjectDevice().capabilities().windows && !end->domain->AllocateWindow().ok()) {
          failed = true;
        }
      }
    }
  });
  for (uint64_t i = 0; i < kCalls; ++i, ++calls) {
    pair.passive.Receive(i, 8192, 64);
    pair.active.Send(i, 0, 64);
    pair.active.Read(i + 10'000, 4096, 4096, pair.passive.address(), pair.passive.region->rkey());
    REQUIRE(pair.passive.NextCompletion(pair.active).status == CompletionStatus::kSuccess);
    REQUIRE(pair.active.NextCompletion(pair.passive).wr_id == i);
    const Completion read = pair.active.NextCompletion(pair.passive);
    REQUIRE(read.wr_id == i + 10'000);
    REQUIRE(read.status == CompletionStatus::kSuccess);
  }
  CHECK(pair.active.Holds(4096, 4096, 3));
  other.join();
  CHECK_FALSE(failed);
}

TEST_CASE("the sink of a read is checked like any memory that is written") {
  Pair pair(SubjectDevice(), FreshAddress());
  auto constant = pair.active.domain->Allocate(4096, {});
  REQUIRE(constant.ok());
  SendRequest request;
  request.opcode = Opcode::kRead;
  request.sge_count = 1;
  request.sges[0] = {(*constant)->memory().data(), 64, (*constant)->lkey()};
  request.remote_address = pair.passive.address();
  request.rkey = pair.passive.region->rkey();
  REQUIRE(pair.active.Post(request).ok());
  CHECK(Says(pair.active.NextCompletion(pair.passive).status,
             CompletionStatus::kLocalProtectionError));
}

// ---- windows ----

SendRequest Bind(MemoryWindow& window, const End& end, size_t offset, size_t bytes) {
  SendRequest request;
  request.wr_id = 77;
  request.opcode = Opcode::kBind;
  request.window = &window;
  request.region = end.region.get();
  request.bind_address = end.address(offset);
  request.bind_length = bytes;
  return request;
}

SendRequest Invalidate(uint32_t rkey) {
  SendRequest request;
  request.wr_id = 78;
  request.opcode = Opcode::kLocalInvalidate;
  request.rkey = rkey;
  return request;
}

TEST_CASE("a window is read while it is bound, and only what it covers") {
  if (!SubjectDevice().capabilities().windows) return;
  Pair pair(SubjectDevice(), FreshAddress());
  auto window = pair.passive.domain->AllocateWindow();
  REQUIRE(window.ok());
  uint32_t before = 0;
  for (int round = 0; round < 1000 / Slowness(); ++round) {
    const uint32_t rkey = (*window)->next_rkey();
    REQUIRE(rkey != before);
    const absl::Status posted = pair.passive.Post(Bind(**window, pair.passive, 4096, 128));
    INFO(posted.ToString());
    REQUIRE(posted.ok());
    CHECK((*window)->next_rkey() != rkey);
    REQUIRE(pair.passive.NextCompletion(pair.active).status == CompletionStatus::kSuccess);
    REQUIRE(StatusOfRead(pair, pair.passive.address(4096 + 64), rkey) ==
            CompletionStatus::kSuccess);
    REQUIRE(pair.passive.Post(Invalidate(rkey)).ok());
    const Completion invalidated = pair.passive.NextCompletion(pair.active);
    REQUIRE(invalidated.status == CompletionStatus::kSuccess);
    CHECK(invalidated.opcode == Opcode::kLocalInvalidate);
    before = rkey;
  }
  CHECK(Says(StatusOfRead(pair, pair.passive.address(4096), before),
             CompletionStatus::kRemoteAccessError));
}

TEST_CASE("what a window does not cover is not read") {
  if (!SubjectDevice().capabilities().windows) return;
  Pair pair(SubjectDevice(), FreshAddress());
  auto window = pair.passive.domain->AllocateWindow();
  REQUIRE(window.ok());
  const uint32_t rkey = (*window)->next_rkey();
  REQUIRE(pair.passive.Post(Bind(**window, pair.passive, 4096, 128)).ok());
  REQUIRE(pair.passive.NextCompletion(pair.active).status == CompletionStatus::kSuccess);
  uint64_t offset = pair.passive.options.memory;
  SECTION("behind the region") {}
  if (SubjectTraits().bounds_windows) {
    SECTION("one byte in front") { offset = 4095; }
    SECTION("one byte behind") { offset = 4096 + 65; }
  }
  SECTION("a stale key") {
    REQUIRE(pair.passive.Post(Invalidate(rkey)).ok());
    REQUIRE(pair.passive.Post(Bind(**window, pair.passive, 4096, 128)).ok());
    CHECK(pair.passive.NextCompletion(pair.active).status == CompletionStatus::kSuccess);
    CHECK(pair.passive.NextCompletion(pair.active).status == CompletionStatus::kSuccess);
    offset = 4096;
  }
  SECTION("a window that is gone") {
    window->reset();
    offset = 4096;
  }
  CHECK(Says(StatusOfRead(pair, pair.passive.address(offset), rkey),
             CompletionStatus::kRemoteAccessError));
}

TEST_CASE("a window cannot be bound beyond its region, or where that is not allowed") {
  if (!SubjectDevice().capabilities().windows) return;
  Pair pair(SubjectDevice(), FreshAddress());
  auto window = pair.passive.domain->AllocateWindow();
  auto unbindable = pair.passive.domain->Allocate(4096, {.remote_read = true});
  REQUIRE(window.ok());
  REQUIRE(unbindable.ok());
  SendRequest request = Bind(**window, pair.passive, 4096, 128);
  SECTION("beyond the end") { request.bind_length = pair.passive.options.memory; }
  SECTION("in front") { request.bind_address -= 4097; }
  SECTION("nothing") { request.bind_length = 0; }
  SECTION("not allowed") {
    request.region = unbindable->get();
    request.bind_address = reinterpret_cast<uintptr_t>((*unbindable)->memory().data());
  }
  REQUIRE(pair.passive.Post(request).ok());
  CHECK(Says(pair.passive.NextCompletion(pair.active).status, CompletionStatus::kBindError));
  CHECK(pair.passive.pair->state() == QueuePairState::kError);
}

TEST_CASE("a window is not bound to a region of another domain") {
  if (!SubjectDevice().capabilities().windows) return;
  Pair pair(SubjectDevice(), FreshAddress());
  auto window = pair.passive.domain->AllocateWindow();
  REQUIRE(window.ok());
  SendRequest request = Bind(**window, pair.passive, 4096, 128);
  request.region = pair.active.region.get();
  const absl::Status posted = pair.passive.Post(request);
  if (posted.ok()) {
    CHECK(Says(pair.passive.NextCompletion(pair.active).status, CompletionStatus::kBindError));
  } else {
    CHECK(posted.code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("a key that is not bound cannot be invalidated") {
  if (!SubjectDevice().capabilities().windows) return;
  Pair pair(SubjectDevice(), FreshAddress());
  REQUIRE(pair.passive.Post(Invalidate(0x7fff0001)).ok());
  CHECK(Says(pair.passive.NextCompletion(pair.active).status, CompletionStatus::kBindError));
}

}  // namespace
}  // namespace farcall::rdma::testing
