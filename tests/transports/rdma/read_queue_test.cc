#include "farcall/transports/rdma/read_queue.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace farcall::rdma {
namespace {

using Progress = ReadQueue::Progress;

constexpr uint64_t kLarge = kSmallPayloadBytes + 1;

// Local and remote addresses run in parallel from these.
std::byte* const kLocal = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);
constexpr uint64_t kRemote = 0x1000;

ReadSegments Segments(uint64_t body, uint64_t attachment = 0) {
  ReadSegments segments;
  if (body != 0) segments[0] = {kRemote, 1, kLocal, 11, body};
  if (attachment != 0) segments[1] = {2 * kRemote, 2, kLocal + kRemote, 22, attachment};
  return segments;
}

// The transfers whose READs can be posted now, in order.
std::vector<uint32_t> Post(ReadQueue& queue) {
  std::vector<uint32_t> posted;
  for (ReadQueue::Read read; queue.Next(read);) posted.push_back(read.transfer);
  return posted;
}

TEST_CASE("a payload is read in chunks, body and attachment apart, each byte once") {
  ReadQueue queue(100, 1000);
  queue.Add(1, Segments(2500, 1000));
  const std::vector<ReadSegment> expected = {
      {kRemote, 1, kLocal, 11, 1000},
      {kRemote + 1000, 1, kLocal + 1000, 11, 1000},
      {kRemote + 2000, 1, kLocal + 2000, 11, 500},
      {2 * kRemote, 2, kLocal + kRemote, 22, 1000},
  };
  ReadQueue::Read read;
  for (const ReadSegment& segment : expected) {
    REQUIRE(queue.Next(read));
    CHECK(read.transfer == 1);
    CHECK(read.segment.remote_address == segment.remote_address);
    CHECK(read.segment.rkey == segment.rkey);
    CHECK(read.segment.local == segment.local);
    CHECK(read.segment.local_region == segment.local_region);
    CHECK(read.segment.bytes == segment.bytes);
  }
  CHECK_FALSE(queue.Next(read));
  for (int i = 0; i < 3; ++i) CHECK(queue.Completed(1) == Progress::kMore);
  CHECK(queue.Completed(1) == Progress::kArrived);
  CHECK(queue.empty());
}

TEST_CASE("sizes around a chunk") {
  for (const auto& [bytes, reads] :
       std::map<uint64_t, size_t>{{1, 1}, {999, 1}, {1000, 1}, {1001, 2}, {2000, 2}, {2001, 3}}) {
    ReadQueue queue(100, 1000);
    queue.Add(1, Segments(bytes));
    queue.Add(2, Segments(0, bytes));
    CHECK(Post(queue).size() == 2 * reads);
  }
}

TEST_CASE("no more are out than the depth") {
  ReadQueue queue(3, 1000);
  queue.Add(1, Segments(10 * 1000));
  CHECK(Post(queue).size() == 3);
  CHECK(queue.out() == 3);
  CHECK(queue.Completed(1) == Progress::kMore);
  CHECK(Post(queue).size() == 1);
  CHECK(queue.out() == 3);
}

TEST_CASE("small payloads go before large ones, in order") {
  ReadQueue queue(100, kSmallPayloadBytes);
  for (const uint32_t large : {1, 2}) queue.Add(large, Segments(3 * kSmallPayloadBytes));
  ReadQueue::Read read;
  REQUIRE(queue.Next(read));
  CHECK(read.transfer == 1);
  queue.Add(3, Segments(kSmallPayloadBytes - 1, 1));
  queue.Add(4, Segments(1));
  CHECK(Post(queue) == std::vector<uint32_t>{3, 3, 4, 1, 1, 2, 2, 2});
}

TEST_CASE("large payloads begin one after the other, and take turns after their first one") {
  constexpr uint64_t kChunk = kFirstTurnBytes / 2;
  ReadQueue queue(100, kChunk);
  ReadQueue::Read read;
  CHECK(queue.MayBegin());
  const auto post = [&] {
    std::vector<uint32_t> order;
    while (queue.Next(read)) {
      order.push_back(read.transfer);
      queue.Completed(read.transfer);
    }
    return order;
  };
  queue.Add(1, Segments(kFirstTurnBytes + 3 * kChunk));
  CHECK_FALSE(queue.MayBegin());
  REQUIRE(queue.Next(read));
  CHECK_FALSE(queue.MayBegin());
  REQUIRE(queue.Next(read));
  CHECK(queue.MayBegin());  // 1 has had its turn, and goes on with what comes
  queue.Add(2, Segments(kFirstTurnBytes + 2 * kChunk));
  queue.Add(3, Segments(kFirstTurnBytes));
  queue.Completed(1);
  queue.Completed(1);
  // 1 takes turns with the one that begins, then with 2, then is over; 3 begins when 2 has.
  CHECK(post() == std::vector<uint32_t>{1, 2, 1, 2, 1, 3, 2, 3, 2});
  CHECK(queue.empty());
}

TEST_CASE("one that is stopped in its first turn lets the next one begin") {
  ReadQueue queue(1, 1000);
  queue.Add(1, Segments(10 * kLarge));
  CHECK(Post(queue) == std::vector<uint32_t>{1});
  CHECK_FALSE(queue.MayBegin());
  CHECK_FALSE(queue.Stop(1));
  CHECK(queue.MayBegin());
  CHECK(queue.Completed(1) == Progress::kDrained);
}

TEST_CASE("large payloads have no more READs out than the link needs, small ones have the depth") {
  ReadQueue queue(16, kReadAhead / 4);
  queue.Add(1, Segments(kFirstTurnBytes));
  CHECK(Post(queue).size() == 4);
  for (uint32_t id = 2; id <= 20; ++id) queue.Add(id, Segments(1));
  CHECK(Post(queue).size() == 12);
  CHECK(queue.Completed(2) == Progress::kArrived);
  CHECK(Post(queue) == std::vector<uint32_t>{14});
  CHECK(queue.Completed(1) == Progress::kMore);
  CHECK(Post(queue) == std::vector<uint32_t>{15});
  // A chunk as large as that, or larger: two, so that the link is never idle.
  ReadQueue large(16, 4 * kReadAhead);
  large.Add(1, Segments(64 * uint64_t{kReadAhead}));
  CHECK(Post(large).size() == 2);
}

TEST_CASE("a transfer that is stopped posts no more and is drained by what is out") {
  ReadQueue queue(2, 1000);
  queue.Add(1, Segments(kLarge));
  queue.Add(2, Segments(kLarge));
  queue.Add(3, Segments(kLarge));
  CHECK(Post(queue) == std::vector<uint32_t>{1, 1});
  CHECK(queue.Stop(3));  // none of it was out
  CHECK_FALSE(queue.Stop(1));
  CHECK(queue.Completed(1) == Progress::kMore);
  CHECK(Post(queue) == std::vector<uint32_t>{2});
  CHECK(queue.Completed(1) == Progress::kDrained);
  CHECK(Post(queue) == std::vector<uint32_t>{2});
  CHECK_FALSE(queue.Stop(2));
  CHECK(queue.Completed(2) == Progress::kMore);
  CHECK(queue.Completed(2) == Progress::kDrained);
  CHECK(queue.empty());
  CHECK(queue.out() == 0);
}

TEST_CASE("one whose last READ is out drains, too") {
  ReadQueue queue(2, 1000);
  queue.Add(1, Segments(1000));
  CHECK(Post(queue) == std::vector<uint32_t>{1});
  CHECK_FALSE(queue.Stop(1));
  CHECK(queue.Completed(1) == Progress::kDrained);
  CHECK(queue.empty());
}

TEST_CASE("a thousand payloads at a depth of 1") {
  ReadQueue queue(1);
  for (uint32_t id = 1; id <= 1000; ++id) queue.Add(id, Segments(2 * kDefaultChunk));
  std::vector<uint32_t> arrived;
  for (ReadQueue::Read read; queue.Next(read);) {
    REQUIRE(queue.out() == 1);
    if (queue.Completed(read.transfer) == Progress::kArrived) arrived.push_back(read.transfer);
  }
  REQUIRE(arrived.size() == 1000);
  CHECK(std::is_sorted(arrived.begin(), arrived.end()));
  CHECK(queue.empty());
}

TEST_CASE("whatever order things happen in, each transfer ends once with the bytes it asked for") {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    INFO("seed=" << seed);
    std::mt19937 generator(seed);
    const auto random = [&generator] { return static_cast<uint32_t>(generator()); };
    const uint32_t depth = 1 + random() % 8;
    ReadQueue queue(depth, 1000);
    struct Expected {
      uint64_t left = 0;
      bool stopped = false;
    };
    std::map<uint32_t, Expected> living;
    std::vector<uint32_t> out;
    uint32_t last = 0;
    for (int step = 0; step < 500 || !living.empty(); ++step) {
      const uint32_t dice = random() % 8;
      ReadQueue::Read read;
      if (dice == 0 && step < 500) {
        const uint64_t body = random() % 3000;
        const uint64_t attachment = 1 + random() % 90'000;
        queue.Add(++last, Segments(body, attachment));
        living[last].left = body + attachment;
      } else if (dice == 1 && !living.empty() && step < 500) {
        auto at = living.lower_bound(random() % (last + 1));
        if (at == living.end() || at->second.stopped) continue;
        at->second.stopped = true;
        const bool none_out = std::find(out.begin(), out.end(), at->first) == out.end();
        REQUIRE(queue.Stop(at->first) == none_out);
        if (none_out) living.erase(at);
      } else if (dice < 5 && queue.Next(read)) {
        Expected& expected = living.at(read.transfer);
        REQUIRE_FALSE(expected.stopped);
        REQUIRE(read.segment.bytes >= 1);
        REQUIRE(read.segment.bytes <= 1000);
        REQUIRE(expected.left >= read.segment.bytes);
        expected.left -= read.segment.bytes;
        out.push_back(read.transfer);
        REQUIRE(out.size() <= depth);
      } else if (!out.empty()) {
        const size_t at = random() % out.size();  // in any order
        const uint32_t id = out[at];
        out.erase(out.begin() + static_cast<ptrdiff_t>(at));
        const Expected expected = living.at(id);
        const bool last_out = std::find(out.begin(), out.end(), id) == out.end();
        const Progress wanted = !last_out            ? Progress::kMore
                                : expected.stopped   ? Progress::kDrained
                                : expected.left == 0 ? Progress::kArrived
                                                     : Progress::kMore;
        REQUIRE(queue.Completed(id) == wanted);
        if (wanted != Progress::kMore) living.erase(id);
      }
    }
    REQUIRE(queue.empty());
    REQUIRE(queue.out() == 0);
  }
}

}  // namespace
}  // namespace farcall::rdma
