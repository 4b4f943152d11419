// Slots of the send queue, and what is leased to them, where the counters of both begin anew.

#include "farcall/transports/rdma/send_slots.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <memory>

#include "farcall/rpc/buffer_pool.h"

namespace farcall::rdma {
namespace {

constexpr uint32_t kDepth = 16, kInterval = 4;

TEST_CASE("slots and leases come back in order where the counters pass 2^32") {
  constexpr uint32_t kFrom = UINT32_MAX - 40, kRequests = 100;
  const auto pool = std::make_shared<BufferPool>(BufferPoolOptions{});
  SendSlots slots(kDepth, kInterval, kFrom);
  std::deque<uint32_t> signaled;  // requests that will complete, counted from 1
  uint32_t posted = 0, back = 0;
  while (posted < kRequests) {
    while (slots.free() > 0) {
      CHECK(slots.next() == (kFrom + posted) % kDepth);
      ++posted;
      if (slots.Take(false)) signaled.push_back(posted);
      slots.Lease(kFrom + posted, pool->Allocate(64).value(), {});
    }
    CHECK(slots.leases() == posted - back);
    // The peer's word is early for half of what the next completion frees.
    back += kInterval / 2;
    slots.Reposted(kFrom + back);
    CHECK(slots.leases() == posted - back);
    CHECK(slots.free() == 0);
    REQUIRE_FALSE(signaled.empty());
    back = signaled.front();
    signaled.pop_front();
    slots.Completed();
    CHECK(slots.leases() == posted - back);
    CHECK(slots.free() == kDepth - (posted - back));
  }
}

}  // namespace
}  // namespace farcall::rdma
