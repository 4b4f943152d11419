#include "farcall/transports/tcp/send_queue.h"

#include <time.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "farcall/tests/transports/tcp/wire.h"
#include "farcall/transports/tcp/assembler.h"

namespace farcall::tcp {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

// A queue whose kernel is a string.
class Wire {
 public:
  explicit Wire(TransportLimits limits = {}) : queue_(store_, limits) {}

  Ticket Push(std::string_view head, std::string_view body, std::string_view attachment = {}) {
    auto slot = std::make_shared<Ticket>(0);
    *slot =
        queue_.Push(MakeMessage(pool_, head, body, attachment), [this, slot](SendResult result) {
          REQUIRE(ended.count(*slot) == 0);
          ended.emplace(*slot, std::move(result));
        });
    return *slot;
  }

  // The kernel takes at most `room` bytes in one call; returns what it took.
  std::string Take(size_t room = SIZE_MAX) {
    queue_.Gather(batch_);
    std::string taken;
    for (size_t i = 0; i < batch_.count; ++i) {
      const iovec& region = batch_.regions[i];
      const size_t part = std::min(room - taken.size(), region.iov_len);
      taken.append(static_cast<const char*>(region.iov_base), part);
    }
    if (!taken.empty()) queue_.Written(batch_, taken.size());
    RunDones();
    return taken;
  }

  std::string TakeAll(size_t room = SIZE_MAX) {
    std::string all;
    while (!queue_.empty()) all += Take(room);
    return all;
  }

  void RunDones() {
    OutgoingList finished = queue_.TakeFinished();
    while (Outgoing* outgoing = finished.PopFront()) {
      SendDone done = std::move(outgoing->done);
      SendResult result{outgoing->status, outgoing->sent, {}};
      if (!outgoing->sent) result.message = std::move(outgoing->message);
      store_.Return(outgoing);
      done(std::move(result));
    }
  }

  SendQueue& queue() { return queue_; }
  BufferPool& pool() { return pool_; }
  std::map<Ticket, SendResult> ended;

 private:
  BufferPool pool_;
  OutgoingStore store_;
  SendBatch batch_;
  SendQueue queue_;
};

TEST_CASE("messages of a turn leave together and in order") {
  Wire wire;
  const std::string long_head = Pattern(1000);
  const Ticket first = wire.Push("h1", "body", "attachment");
  const Ticket second = wire.Push(long_head, "");
  CHECK(wire.Take() ==
        Hello() + MessageRecord("h1", "body", "attachment") + MessageRecord(long_head, ""));
  CHECK(wire.ended.at(first).status.ok());
  CHECK(wire.ended.at(first).sent);
  CHECK(wire.ended.at(second).sent);
  CHECK(wire.queue().empty());
  CHECK(wire.Take().empty());
  CHECK(wire.pool().stats().leased_bytes == 0);
}

TEST_CASE("a kernel that takes a byte at a time gets the same stream") {
  const std::string body = Pattern(300), large = Pattern(70000), attachment = Pattern(300000);
  std::string expected;
  for (const size_t room : {SIZE_MAX, size_t{1000}, size_t{23}, size_t{1}}) {
    Wire wire;
    wire.Push("small", body);
    wire.Push("large", large, attachment);
    wire.Push("after", body);
    const std::string stream = wire.TakeAll(room);
    if (expected.empty()) expected = stream;
    CHECK((stream == expected));
    CHECK(wire.ended.size() == 3);
  }
  const std::string payload = large + attachment;
  CHECK((expected == Hello() + MessageRecord("small", body) +
                         BeginRecord(1, "large", large.size(), attachment.size()) +
                         MessageRecord("after", body) +
                         ChunkRecord(1, 0, payload.substr(0, kShortChunk)) +
                         ChunkRecord(1, kShortChunk, payload.substr(kShortChunk))));
}

TEST_CASE("a small message waits for the chunk that was gathered, no longer") {
  Wire wire;
  const std::string large = Pattern(10 << 20);
  wire.Push("large", large);
  wire.Take();
  CHECK(wire.Take().size() == kPrefixBytes + kLongChunk);
  wire.Take(1000);  // the kernel is full inside a chunk
  wire.Push("small", "x");
  const std::string next = wire.Take();
  const std::string small = MessageRecord("small", "x");
  CHECK((next.substr(kPrefixBytes + kLongChunk - 1000, small.size()) == small));
}

TEST_CASE("chunks are short while small messages are about") {
  Wire wire;
  wire.Push("large", Pattern(3 * kCalmAfter));
  wire.Take();
  CHECK(wire.Take().size() == kPrefixBytes + kLongChunk);
  wire.Push("small", "x");
  const size_t small = MessageRecord("small", "x").size();
  CHECK(wire.Take().size() == small + kPrefixBytes + kShortChunk);
  for (uint64_t sent = kShortChunk; sent < kCalmAfter; sent += kShortChunk) {
    REQUIRE(wire.Take().size() == kPrefixBytes + kShortChunk);
  }
  CHECK(wire.Take().size() == kPrefixBytes + kLongChunk);
}

TEST_CASE("a flood of small messages leaves large ones a part of the wire") {
  Wire wire;
  const Ticket large = wire.Push("large", Pattern(32 * kShortChunk));
  const std::string small = Pattern(60000);
  const int batches = 33 * (kMaxBatchesWithoutChunk + 1);
  for (int batch = 0; batch < batches; ++batch) {
    while (wire.queue().queued_messages() < 100) wire.Push("small", small);
    wire.Take();
  }
  CHECK(wire.ended.contains(large));
}

TEST_CASE("the last chunk is no crumb") {
  for (const uint64_t bytes : {kLongChunk + 1, 2 * kLongChunk - 1, 3 * kLongChunk + 64}) {
    CAPTURE(bytes);
    Wire wire;
    wire.Push("large", Pattern(bytes));
    wire.Take();
    uint64_t left = bytes;
    while (left >= 2 * kLongChunk) {
      CHECK(wire.Take().size() == kPrefixBytes + kLongChunk);
      left -= kLongChunk;
    }
    CHECK(wire.Take().size() == kPrefixBytes + left);
    CHECK(wire.queue().empty());
  }
}

TEST_CASE("transfers take turns of 1 MiB") {
  const std::string large = Pattern(5 << 19);
  for (const bool calm : {true, false}) {
    Wire wire;
    if (!calm) wire.Push("small", "x");
    for (const char* head : {"a", "b", "c"}) wire.Push(head, large);
    wire.Take();
    std::map<char, uint64_t> sent;
    std::string turns;  // which transfer's
    while (!wire.queue().empty()) {
      const std::string chunk = wire.Take();
      const char transfer = static_cast<char>('0' + chunk[4]);
      if (sent[transfer] % kTransferTurn == 0) turns.push_back(transfer);
      sent[transfer] += chunk.size() - kPrefixBytes;
    }
    CHECK(turns == (calm ? "123123" : "123123123"));
    for (const auto& [transfer, bytes] : sent) CHECK(bytes == large.size());
  }
}

TEST_CASE("withdrawing") {
  Wire wire;
  const std::string large = Pattern(3 << 20);
  SECTION("before a byte left: it never was") {
    wire.Push("a", "1");
    const Ticket ticket = wire.Push("b", large);
    wire.Push("c", "3");
    wire.queue().Withdraw(ticket);
    CHECK(wire.ended.empty());  // not from inside
    wire.RunDones();
    const SendResult& result = wire.ended.at(ticket);
    CHECK(result.status.code() == absl::StatusCode::kCancelled);
    CHECK_FALSE(result.sent);
    CHECK(HeadOf(result.message) == "b");
    CHECK((result.message.body.view() == large));
    CHECK(wire.TakeAll() == Hello() + MessageRecord("a", "1") + MessageRecord("c", "3"));
  }
  SECTION("inside a small one: it goes on, but its sender is free") {
    const Ticket ticket = wire.Push("a", "0123456789");
    const std::string start = wire.Take(20);
    wire.queue().Withdraw(ticket);
    wire.RunDones();
    CHECK(wire.ended.at(ticket).sent);
    CHECK(wire.ended.at(ticket).status.code() == absl::StatusCode::kCancelled);
    CHECK(start + wire.TakeAll() == Hello() + MessageRecord("a", "0123456789"));
  }
  SECTION("inside a BEGIN") {
    const Ticket ticket = wire.Push("a", large);
    const std::string start = wire.Take(20);
    wire.queue().Withdraw(ticket);
    CHECK(start + wire.TakeAll() == Hello() + BeginRecord(1, "a", large.size()) + AbortRecord(1));
    CHECK(wire.ended.at(ticket).sent);
  }
  SECTION("between chunks: ABORT at once") {
    const Ticket ticket = wire.Push("a", large);
    wire.Take();
    wire.Take();
    wire.queue().Withdraw(ticket);
    CHECK(wire.TakeAll() == AbortRecord(1));
    CHECK(wire.ended.at(ticket).sent);
  }
  SECTION("inside a chunk: ABORT after it") {
    const Ticket ticket = wire.Push("a", large);
    wire.Take();
    const std::string start = wire.Take(100);
    wire.queue().Withdraw(ticket);
    wire.queue().Withdraw(ticket);
    wire.RunDones();
    CHECK(wire.ended.at(ticket).sent);
    CHECK((start + wire.TakeAll() ==
           ChunkRecord(1, 0, large.substr(0, kLongChunk)) + AbortRecord(1)));
  }
  SECTION("what ended or never was") {
    const Ticket ticket = wire.Push("a", "1");
    wire.TakeAll();
    wire.queue().Withdraw(ticket);
    wire.queue().Withdraw(ticket + 1);
    CHECK_FALSE(wire.queue().has_finished());
  }
  CHECK(wire.queue().empty());
  CHECK(wire.queue().queued_messages() == 0);
  CHECK(wire.queue().queued_bytes() == 0);
}

TEST_CASE("the peer abandons a transfer") {
  Wire wire;
  const std::string large = Pattern(3 << 20);
  const Ticket ticket = wire.Push("a", large);
  CHECK_FALSE(wire.queue().PeerAbandoned(1).ok());  // it has not begun
  wire.Take();
  wire.Take();
  REQUIRE(wire.queue().PeerAbandoned(1).ok());
  CHECK(wire.TakeAll() == AbortRecord(1));
  CHECK(wire.ended.at(ticket).status.ok());
  CHECK(wire.queue().PeerAbandoned(1).ok());  // it crossed our last bytes
  CHECK(wire.TakeAll().empty());
  CHECK_FALSE(wire.queue().PeerAbandoned(2).ok());
}

TEST_CASE("ABANDON goes before messages and is taken back when it came too late") {
  Wire wire;
  wire.TakeAll();
  wire.Push("a", "1");
  wire.queue().PushAbandon(4);
  wire.queue().PushAbandon(5);
  wire.queue().DropAbandon(4);
  CHECK(wire.TakeAll() == AbandonRecord(5) + MessageRecord("a", "1"));
  wire.queue().PushAbandon(6);
  const std::string start = wire.Take(1);
  wire.queue().DropAbandon(6);  // a record once begun is finished
  CHECK(start + wire.TakeAll() == AbandonRecord(6));
}

TEST_CASE("limits") {
  TransportLimits limits;
  limits.max_queued_messages = 3;
  limits.max_queued_bytes = 300000;
  limits.max_transfers = 1;
  Wire wire(limits);
  const auto refused = [&](Ticket ticket) {
    wire.RunDones();
    const SendResult result = std::move(wire.ended.at(ticket));
    CHECK_FALSE(result.sent);
    return std::string(result.status.message());
  };
  SECTION("messages") {
    for (int i = 0; i < 3; ++i) wire.Push("", "x");
    CHECK(refused(wire.Push("", "x")) ==
          "send queue: 3 messages wait already (max_queued_messages)");
  }
  SECTION("bytes; a larger one may wait alone, and small ones beside it") {
    limits.max_transfers = 10;
    Wire roomy(limits);
    roomy.Push("", Pattern(300000));
    roomy.Push("", "x");
    const Ticket second = roomy.Push("", Pattern(70000));
    roomy.RunDones();
    CHECK(roomy.ended.at(second).status.message() ==
          "send queue: a message that holds 70000 bytes does not fit beside the 300000 that wait "
          "already (max_queued_bytes 300000)");
    limits.max_queued_bytes = 10;
    Wire tight(limits);
    tight.Push("", Pattern(20));
    const Ticket refused_one = tight.Push("", "x");
    tight.RunDones();
    CHECK(tight.ended.at(refused_one).status.message() ==
          "send queue: a message that holds 256 bytes does not fit beside the 256 that wait "
          "already (max_queued_bytes 10)");
    roomy.TakeAll();
    tight.TakeAll();
  }
  SECTION("transfers") {
    wire.Push("", Pattern(70000));
    CHECK(refused(wire.Push("", Pattern(70000))) ==
          "send queue: 1 large payloads wait already (max_transfers)");
    wire.TakeAll();
    wire.Push("", Pattern(70000));
  }
  wire.TakeAll();
  CHECK(wire.queue().queued_messages() == 0);
}

TEST_CASE("failing everything says what left") {
  Wire wire;
  const Ticket large = wire.Push("large", Pattern(1 << 20));
  wire.Take();
  const Ticket cut = wire.Push("cut", "0123456789");
  wire.Take(10);
  const Ticket waits = wire.Push("waits", "x");
  wire.queue().FailAll(absl::UnavailableError("gone"));
  wire.RunDones();
  CHECK(wire.ended.at(large).sent);
  CHECK(wire.ended.at(cut).sent);
  CHECK_FALSE(wire.ended.at(waits).sent);
  CHECK(wire.ended.at(waits).message.body.view() == "x");
  for (const auto& [ticket, result] : wire.ended) CHECK(result.status.message() == "gone");
  CHECK(wire.queue().empty());
  wire.ended.clear();
  CHECK(wire.pool().stats().leased_bytes == 0);
}

TEST_CASE("withdrawing for ever behind a stuck message keeps the queue small") {
  Wire wire;
  wire.Push("stuck", "x");
  wire.Push("tail", "x");
  for (int i = 0; i < 100000; ++i) {
    const Ticket ticket = wire.Push("w", "x");
    if (i % 2 == 0) wire.Push("", "");  // no done asked for would leave no trace: it stays
    wire.queue().Withdraw(ticket);
    if (i % 2 == 0) wire.queue().Withdraw(ticket + 1);
    wire.RunDones();
    wire.ended.clear();
  }
  CHECK(wire.queue().queued_messages() == 2);
  CHECK(wire.TakeAll() == Hello() + MessageRecord("stuck", "x") + MessageRecord("tail", "x"));
}

// Whatever is pushed, withdrawn, abandoned and cut: the other side's assembler puts the rest
// together.
TEST_CASE("random plans arrive whole") {
  struct Sink final : AssemblerEvents {
    Admission Admit(Ticket, std::span<const std::byte>, MessageSizes) override { return {}; }
    void OnMessage(Ticket, Message&& message) override {
      heard[HeadOf(message)] =
          std::string(message.body.view()) + std::string(message.attachment.view());
    }
    void OnAbandoned(Ticket, absl::Status) override { ++given_up; }
    void SendAbandon(uint32_t) override {}
    void DropAbandon(uint32_t) override {}
    absl::Status OnPeerAbandon(uint32_t) override { return absl::OkStatus(); }
    std::map<std::string, std::string> heard;
    int given_up = 0;
  };
  for (unsigned seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](unsigned limit) { return static_cast<unsigned>(random()) % limit; };
    Wire wire;
    Sink sink;
    BufferPool pool;
    Assembler assembler(sink, pool);
    std::vector<std::byte> scratch(kReadBufferBytes);
    std::map<std::string, std::string> sent;
    std::vector<std::pair<Ticket, std::string>> pushed;

    for (unsigned step = 0; step < 200 || !wire.queue().empty(); ++step) {
      if (step < 200 && below(2) == 0) {
        const size_t sizes[] = {0, 10, 5000, 65536, 65537, 400000};
        const std::string name = std::to_string(step);
        const std::string body = Pattern(sizes[below(6)], step),
                          attachment = Pattern(sizes[below(4)], step);
        pushed.emplace_back(wire.Push(name, body, attachment), name);
        sent[name] = body + attachment;
      }
      if (!pushed.empty() && below(6) == 0)
        wire.queue().Withdraw(pushed[below(static_cast<unsigned>(pushed.size()))].first);
      if (below(8) == 0) (void)wire.queue().PeerAbandoned(1 + below(20));
      std::string_view stream;
      const std::string taken = wire.Take(below(3) == 0 ? 1 + below(50) : 1 + below(500000));
      stream = taken;
      assembler.Attach(scratch);
      while (!stream.empty()) {
        const Assembler::Regions regions = assembler.Want();
        size_t given = std::min(regions.bytes, stream.size());
        size_t left = given;
        for (size_t r = 0; r < regions.count && left > 0; ++r) {
          const size_t part = std::min(left, regions.region[r].iov_len);
          std::memcpy(regions.region[r].iov_base, stream.data(), part);
          stream.remove_prefix(part);
          left -= part;
        }
        REQUIRE(assembler.Received(given).ToString() == "OK");
      }
      assembler.Detach();
    }
    for (const auto& [name, payload] : sink.heard) CHECK((sent.at(name) == payload));
    // What ended as whole is there; what was not sent is not.
    for (const auto& [ticket, name] : pushed) {
      const SendResult& result = wire.ended.at(ticket);
      if (!result.sent) CHECK(sink.heard.count(name) == 0);
      if (sink.heard.count(name) == 0 && result.sent && result.status.ok()) {
        CHECK(sink.given_up > 0);  // the peer abandoned it
      }
    }
    CHECK(assembler.Position().empty());
  }
}

TEST_CASE("memory that waits is counted, not bytes") {
  struct Case {
    const char* name;
    size_t head, body, attachment, holds;
  };
  for (const Case& at : {Case{"in place", 64, 0, 0, 0}, Case{"a head of its own", 65, 0, 0, 256},
                         Case{"a long head", 1025, 0, 0, 2048}, Case{"one byte", 32, 1, 0, 256},
                         Case{"all three", 100, 300, 5000, 256 + 512 + 8192}}) {
    CAPTURE(at.name);
    Wire wire;
    wire.Push(Pattern(at.head), Pattern(at.body), Pattern(at.attachment));
    CHECK(wire.queue().queued_bytes() == at.holds);
    CHECK(wire.pool().stats().leased_bytes == at.holds);
    wire.TakeAll();
    CHECK(wire.queue().queued_bytes() == 0);
  }
}

// CPU seconds of this thread that a flood of ABANDONs takes when so many transfers are under way.
double FloodSeconds(Wire& wire, uint32_t transfers) {
  const std::string payload(kMaxInlinePayload + 1, 'x');
  for (uint32_t i = 0; i < transfers; ++i) wire.Push("", payload);
  while (!wire.queue().PeerAbandoned(transfers).ok()) wire.Take(10000);  // all BEGINs are out
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  bool ok = true;
  // For one that is over: a search would pass all others.
  for (int i = 0; i < 20000; ++i) ok = wire.queue().PeerAbandoned(transfers).ok() && ok;
  CHECK(ok);
  return now() - begin;
}

TEST_CASE("a flood of ABANDONs finds its transfers without a search") {
  TransportLimits limits;
  limits.max_queued_bytes = size_t{1} << 40;
  Wire few(limits), many(limits);
  CHECK(FloodSeconds(many, kMaxTransfers) < 50 * FloodSeconds(few, 2));  // a walk: 500 times
  // From both ends and the middle: each ends once, as sent.
  for (const uint32_t transfer : {2U, 1023U, 512U, 2U}) {
    CHECK(many.queue().PeerAbandoned(transfer).ok());
  }
  many.RunDones();
  for (const uint32_t transfer : {2U, 512U, 1023U, 1024U}) CHECK(many.ended.count(transfer) == 1);
  const std::string rest = many.TakeAll();
  CHECK(rest.find(AbortRecord(1024)) != std::string::npos);
  CHECK(many.ended.size() == kMaxTransfers);
  CHECK(many.pool().stats().leased_bytes == 0);
}

TEST_CASE(
    "ABANDONs that wait are bounded by what one call takes, and taken back without a search") {
  Wire wire;
  wire.Take();
  for (uint32_t i = 1; i <= kMaxTransfers; ++i) wire.queue().PushAbandon(i);
  wire.queue().DropAbandon(1);
  wire.queue().DropAbandon(kMaxTransfers);
  std::string expected;
  for (uint32_t i = 2; i < kMaxTransfers; ++i) expected += AbandonRecord(i);
  CHECK(wire.TakeAll(1000) == expected);
  CHECK(wire.queue().empty());
}

}  // namespace
}  // namespace farcall::tcp
