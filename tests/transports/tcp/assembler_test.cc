#include "farcall/transports/tcp/assembler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "farcall/tests/transports/tcp/wire.h"

namespace farcall::tcp {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

// An assembler that is fed strings, and what it found.
class Feed final : private AssemblerEvents {
 public:
  explicit Feed(size_t pool_bytes = size_t{64} << 20, const TransportLimits& limits = {})
      : pool_({.name = "test", .max_bytes = pool_bytes}), assembler_(*this, pool_, limits) {}

  // Gives `bytes` in pieces of at most `piece`, in turns of at most `reads` receives.
  absl::Status Give(std::string_view bytes, size_t piece = SIZE_MAX, size_t reads = SIZE_MAX) {
    while (!bytes.empty()) {
      assembler_.Attach(scratch_);
      for (size_t i = 0; i < reads && !bytes.empty(); ++i) {
        const Assembler::Regions regions = assembler_.Want();
        REQUIRE(regions.bytes > 0);
        size_t size = std::min({piece, regions.bytes, bytes.size()});
        const size_t given = size;
        for (size_t r = 0; r < regions.count; ++r) {
          const size_t part = std::min(size, regions.region[r].iov_len);
          std::memcpy(regions.region[r].iov_base, bytes.data(), part);
          bytes.remove_prefix(part);
          size -= part;
        }
        absl::Status status = assembler_.Received(given);
        if (!status.ok() || stopped) {
          assembler_.Detach();
          return status;
        }
      }
      assembler_.Detach();
    }
    return absl::OkStatus();
  }

  struct Heard {
    std::string head, body, attachment;
    bool aligned = false;
  };

  Assembler& assembler() { return assembler_; }
  BufferPool& pool() { return pool_; }
  void Stop() {
    stopped = true;
    assembler_.Stop();
  }

  std::vector<std::string> admitted;  // heads
  std::map<Ticket, MessageSizes> announced;
  std::map<Ticket, Heard> messages;
  std::vector<Ticket> order;
  std::map<Ticket, absl::Status> abandoned;
  std::vector<uint32_t> abandons;  // SendAbandon, less DropAbandon
  std::vector<uint32_t> peer_abandons;
  std::function<Admission(Ticket)> on_admit = [](Ticket) { return Admission{}; };
  std::function<void(Ticket)> on_message = [](Ticket) {};
  bool stopped = false;

 private:
  Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) override {
    admitted.emplace_back(AsView(head));
    announced[ticket] = sizes;
    return on_admit(ticket);
  }
  void OnMessage(Ticket ticket, Message&& message) override {
    const auto aligned = [](const Buffer& buffer) {
      return buffer.empty() || reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment == 0;
    };
    REQUIRE(messages.count(ticket) == 0);
    messages[ticket] = {HeadOf(message), std::string(message.body.view()),
                        std::string(message.attachment.view()),
                        aligned(message.body) && aligned(message.attachment)};
    order.push_back(ticket);
    on_message(ticket);
  }
  void OnAbandoned(Ticket ticket, absl::Status status) override { abandoned[ticket] = status; }
  void SendAbandon(uint32_t transfer) override { abandons.push_back(transfer); }
  void DropAbandon(uint32_t transfer) override { std::erase(abandons, transfer); }
  absl::Status OnPeerAbandon(uint32_t transfer) override {
    peer_abandons.push_back(transfer);
    return absl::OkStatus();
  }

  BufferPool pool_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(kReadBufferBytes);
  Assembler assembler_;
};

// A stream with one of everything, and what should come of it.
struct Sample {
  std::string small = Pattern(100, 2), middle = Pattern(9000, 3), large = Pattern(70000, 4),
              attachment = Pattern(300000, 5), long_head = Pattern(4096, 6);
  std::string stream =
      Hello() + MessageRecord("h1", small) + BeginRecord(1, "h2", large.size(), attachment.size()) +
      MessageRecord(long_head, middle, small) + ChunkRecord(1, 0, Payload(0, 100000)) +
      MessageRecord("h4", "") + ChunkRecord(1, 100000, Payload(100000, 262144)) +
      AbandonRecord(77) + ChunkRecord(1, 362144, Payload(362144, 7856)) + MessageRecord("", small);

  std::string Payload(size_t offset, size_t size) const {
    return (large + attachment).substr(offset, size);
  }
  void Check(Feed& feed) const {
    CHECK(feed.admitted == std::vector<std::string>{"h1", "h2", long_head, "h4", ""});
    REQUIRE(feed.order == std::vector<Ticket>{1, 3, 4, 2, 5});
    CHECK(feed.messages[1].body == small);
    CHECK(feed.messages[2].head == "h2");
    CHECK((feed.messages[2].body == large));
    CHECK((feed.messages[2].attachment == attachment));
    CHECK((feed.messages[3].head == long_head));
    CHECK((feed.messages[3].body == middle));
    CHECK(feed.messages[3].attachment == small);
    CHECK(feed.messages[4].body.empty());
    CHECK(feed.messages[5].body == small);
    for (const auto& [ticket, heard] : feed.messages) CHECK(heard.aligned);
    CHECK(feed.peer_abandons == std::vector<uint32_t>{77});
    CHECK(feed.abandoned.empty());
    CHECK(feed.assembler().Position().empty());
    CHECK(feed.assembler().messages_received() == 5);
  }
};

TEST_CASE("a stream is the same in pieces of any size") {
  const Sample sample;
  for (const size_t piece :
       {size_t{1}, size_t{7}, size_t{24}, size_t{1000}, size_t{65537}, SIZE_MAX}) {
    for (const size_t reads : {size_t{1}, size_t{3}, SIZE_MAX}) {
      Feed feed;
      REQUIRE(feed.Give(sample.stream, piece, reads).ToString() == "OK");
      sample.Check(feed);
      CHECK(feed.pool().stats().leased_bytes == 0);
    }
  }
}

TEST_CASE("a stream that is cut anywhere delivers what was whole and says where it ended") {
  const Sample sample;
  std::vector<size_t> cuts;
  // Every byte of the small records, and around the ends of the large ones.
  for (size_t cut = 0; cut < 500; ++cut) cuts.push_back(cut);
  for (size_t cut = 500; cut < sample.stream.size(); cut += 4099) cuts.push_back(cut);
  for (size_t cut = sample.stream.size() - 400; cut < sample.stream.size(); ++cut)
    cuts.push_back(cut);
  for (const size_t cut : cuts) {
    Feed feed;
    REQUIRE(feed.Give(std::string_view(sample.stream).substr(0, cut)).ok());
    const size_t whole = feed.messages.size();
    CHECK(whole < 5);
    if (cut < 8) CHECK(feed.assembler().Position().starts_with("before its preamble was whole"));
    // The rest makes it whole: nothing was lost at the cut.
    REQUIRE(feed.Give(std::string_view(sample.stream).substr(cut)).ok());
    sample.Check(feed);
  }
}

TEST_CASE("positions are told in words") {
  const auto position = [](std::string_view bytes) {
    Feed feed;
    REQUIRE(feed.Give(bytes).ok());
    return feed.assembler().Position();
  };
  CHECK(position("FAR") == "before its preamble was whole (3 of 8 bytes)");
  CHECK(position(Hello()).empty());
  CHECK(position(Hello() + Record({}).substr(0, 7)) == "inside a record's prefix (7 of 24 bytes)");
  CHECK(position(Hello() + MessageRecord("head", "x").substr(0, 26)) ==
        "inside a message's head (2 of 4 bytes)");
  CHECK(position(Hello() + MessageRecord("", "0123456789").substr(0, 27)) ==
        "inside a message's payload (7 bytes of the record missing)");
  CHECK(position(Hello() + BeginRecord(1, "", 70000)) == "with 1 large payloads unfinished");
}

TEST_CASE("a refused message costs nothing and the next one comes") {
  Feed feed;
  feed.on_admit = [](Ticket ticket) {
    return ticket <= 2 ? Admission{absl::ResourceExhaustedError("too large"), {}} : Admission{};
  };
  const std::string large = Pattern(100000);
  REQUIRE(feed.Give(Hello() + MessageRecord("inline", Pattern(60000))).ok());
  REQUIRE(feed.Give(BeginRecord(1, "large", large.size())).ok());
  CHECK(feed.abandons == std::vector<uint32_t>{1});
  CHECK(feed.pool().stats().allocations == 0);
  // Chunks that were on their way are thrown away, whatever their number.
  REQUIRE(feed.Give(ChunkRecord(1, 0, large.substr(0, 50000))).ok());
  REQUIRE(feed.Give(MessageRecord("next", "body")).ok());
  REQUIRE(feed.Give(AbortRecord(1)).ok());
  CHECK(feed.abandons.empty());
  CHECK(feed.order == std::vector<Ticket>{3});
  CHECK(feed.messages[3].head == "next");
  CHECK(feed.abandoned.empty());
}

TEST_CASE("abandoning gives the memory back at once") {
  Feed feed;
  const std::string large = Pattern(100000);
  REQUIRE(feed.Give(Hello() + BeginRecord(1, "large", large.size()) +
                    ChunkRecord(1, 0, large.substr(0, 1000)))
              .ok());
  CHECK(feed.pool().stats().leased_bytes > 0);
  CHECK(feed.assembler().Abandon(1));
  CHECK_FALSE(feed.assembler().Abandon(1));
  CHECK(feed.pool().stats().leased_bytes == 0);
  CHECK(feed.abandons == std::vector<uint32_t>{1});
  // Its sender had sent everything before it heard: the transfer ends with its last byte.
  REQUIRE(feed.Give(ChunkRecord(1, 1000, large.substr(1000))).ok());
  CHECK(feed.abandons.empty());
  CHECK(feed.messages.empty());

  SECTION("an inline one, inside its payload") {
    REQUIRE(feed.Give(MessageRecord("m", Pattern(5000)).substr(0, 2000)).ok());
    CHECK(feed.assembler().Abandon(2));
    CHECK(feed.pool().stats().leased_bytes == 0);
    REQUIRE(feed.Give(MessageRecord("m", Pattern(5000)).substr(2000)).ok());
    CHECK(feed.messages.empty());
    REQUIRE(feed.Give(MessageRecord("n", "x")).ok());
    CHECK(feed.order == std::vector<Ticket>{3});
  }
  SECTION("one that was delivered, and one that never was") {
    REQUIRE(feed.Give(MessageRecord("m", "x")).ok());
    CHECK_FALSE(feed.assembler().Abandon(2));
    CHECK_FALSE(feed.assembler().Abandon(99));
  }
}

TEST_CASE("an aborted transfer is abandoned") {
  Feed feed;
  REQUIRE(feed.Give(Hello() + BeginRecord(1, "", 100000) + ChunkRecord(1, 0, Pattern(10)) +
                    AbortRecord(1))
              .ok());
  REQUIRE(feed.abandoned.count(1) == 1);
  CHECK(feed.abandoned[1].message() ==
        "the sender gave the message up after 10 of 100000 payload bytes");
  CHECK(feed.pool().stats().leased_bytes == 0);
  CHECK(feed.Give(ChunkRecord(1, 10, "x")).message() ==
        "a CHUNK belongs to a transfer that is under way, not 1");
}

TEST_CASE("a pool that runs dry costs the message, not the connection") {
  Feed feed(size_t{32} << 10);
  feed.on_admit = [](Ticket) { return Admission{}; };
  REQUIRE(feed.Give(Hello() + MessageRecord("a", Pattern(60000))).ok());
  REQUIRE(feed.abandoned.count(1) == 1);
  CHECK(feed.abandoned[1].code() == absl::StatusCode::kResourceExhausted);
  REQUIRE(feed.Give(BeginRecord(1, "b", uint64_t{1} << 62, uint64_t{1} << 61)).ok());
  CHECK(feed.abandoned[2].code() == absl::StatusCode::kResourceExhausted);
  CHECK(feed.abandons == std::vector<uint32_t>{1});
  REQUIRE(feed.Give(MessageRecord("c", "fits")).ok());
  CHECK(feed.messages[3].body == "fits");
  CHECK(feed.pool().stats().leased_bytes == 0);
}

TEST_CASE("a payload takes memory as it comes, not as it is announced") {
  constexpr size_t kPiece = size_t{256} << 10;
  Feed feed(4 * kPiece);
  std::string begins = Hello();
  // A hundred times the pool is announced.
  for (uint32_t i = 1; i <= 200; ++i) begins += BeginRecord(i, "h", kPiece, kPiece);
  REQUIRE(feed.Give(begins).ok());
  CHECK(feed.abandoned.empty());
  CHECK(feed.pool().stats().leased_bytes == 0);
  for (uint32_t i = 1; i <= 100; ++i) REQUIRE(feed.Give(ChunkRecord(i, 0, "x")).ok());
  CHECK(feed.abandoned.empty());
  CHECK(feed.pool().stats().leased_bytes == 100 * 4096);

  // One that comes whole finds room beside them.
  const std::string payload = Pattern(2 * kPiece);
  const auto finish = [&](uint32_t transfer, size_t from) {
    std::string stream;
    for (size_t at = from; at < payload.size(); at += kPiece) {
      stream += ChunkRecord(transfer, at, std::string_view(payload).substr(at, kPiece));
    }
    REQUIRE(feed.Give(stream).ok());
  };
  finish(101, 0);
  REQUIRE(feed.messages.count(101) == 1);
  CHECK((feed.messages[101].body + feed.messages[101].attachment == payload));
  feed.messages.clear();

  // Two at once do not fit: the second ends where the memory did, its rest is thrown away, and the
  // connection goes on.
  REQUIRE(feed.Give(ChunkRecord(102, 0, std::string_view(payload).substr(0, kPiece))).ok());
  REQUIRE(feed.Give(ChunkRecord(103, 0, std::string_view(payload).substr(0, kPiece))).ok());
  finish(102, kPiece);
  REQUIRE(feed.abandoned.size() == 1);
  CHECK(feed.abandoned[102].code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(feed.abandoned[102].message()), Catch::Contains("test pool"));
  CHECK(feed.abandons.empty());  // it ended meanwhile
  REQUIRE(feed.Give(MessageRecord("small", "x")).ok());
  CHECK(feed.messages.count(201) == 1);
}

TEST_CASE("what a peer may announce and not finish is bounded") {
  Feed feed(size_t{64} << 20, {.max_announced_bytes = 200000});
  const std::string payload = Pattern(100000);
  REQUIRE(feed.Give(Hello() + BeginRecord(1, "", 300000)).ok());  // a larger one may come alone
  REQUIRE(feed.Give(BeginRecord(2, "", payload.size())).ok());
  CHECK(feed.abandoned[2].message() ==
        "a payload of 100000 bytes does not fit beside the 300000 that this peer has announced "
        "and not finished (max_announced_bytes 200000)");
  CHECK(feed.abandons == std::vector<uint32_t>{2});
  REQUIRE(feed.Give(AbortRecord(1)).ok());
  // The refused one counts no more, nor does one that was given up or is whole.
  REQUIRE(feed.Give(BeginRecord(3, "", 99999) + BeginRecord(4, "", 99999)).ok());
  CHECK(feed.abandoned.size() == 2);
  CHECK(feed.assembler().Abandon(3));
  REQUIRE(feed.Give(BeginRecord(5, "", payload.size())).ok());
  REQUIRE(feed.Give(ChunkRecord(5, 0, payload)).ok());
  CHECK((feed.messages[5].body == payload));
  REQUIRE(feed.Give(BeginRecord(6, "", payload.size())).ok());
  CHECK(feed.abandoned.size() == 2);
  REQUIRE(feed.Give(BeginRecord(7, "", payload.size(), 1)).ok());
  CHECK(feed.abandoned.count(7) == 1);
}

TEST_CASE("an attachment is received into the buffer that Admit gives") {
  Feed feed;
  BufferPool own;
  feed.on_admit = [&](Ticket) {
    Admission admission;
    admission.attachment = *own.Allocate(200000);
    return admission;
  };
  const std::string attachment = Pattern(100000);
  REQUIRE(
      feed.Give(Hello() + BeginRecord(1, "", 0, attachment.size()) + ChunkRecord(1, 0, attachment))
          .ok());
  CHECK((feed.messages[1].attachment == attachment));
  // The connection's pool served nothing.
  CHECK(feed.pool().stats().allocations == 0);
}

TEST_CASE("rules between records") {
  const std::string begun = Hello() + BeginRecord(1, "", 100000);
  const auto refusal = [](std::string_view bytes) {
    Feed feed;
    return std::string(feed.Give(bytes).message());
  };
  CHECK(refusal("GET / HTTP/1.1") == "it speaks HTTP, not Farcall");
  CHECK(refusal(Hello() + ChunkRecord(1, 0, "x")) ==
        "a CHUNK belongs to a transfer that is under way, not 1");
  CHECK(refusal(Hello() + AbortRecord(1)) == "an ABORT ends a transfer that is under way, not 1");
  CHECK(refusal(Hello() + BeginRecord(2, "", 100000)) ==
        "transfers are numbered in order: 1 is next, not 2");
  CHECK(refusal(begun + BeginRecord(1, "", 100000)) ==
        "transfers are numbered in order: 2 is next, not 1");
  CHECK(refusal(begun + ChunkRecord(1, 1, "x")) ==
        "chunks come in order: offset 0 of transfer 1 is next, not 1");
  CHECK(refusal(begun + ChunkRecord(1, 0, "xy") + ChunkRecord(1, 1, "x")) ==
        "chunks come in order: offset 2 of transfer 1 is next, not 1");
  CHECK(refusal(begun + ChunkRecord(1, 0, std::string(99999, 'x')) + ChunkRecord(1, 99999, "xy")) ==
        "a CHUNK ends with its payload: 1 bytes are left, not 2");
  CHECK(
      refusal(begun + ChunkRecord(1, 0, std::string(100000, 'x')) + ChunkRecord(1, 100000, "x")) ==
      "a CHUNK belongs to a transfer that is under way, not 1");

  std::string many = Hello();
  for (uint32_t i = 1; i <= kMaxTransfers; ++i) many += BeginRecord(i, "", 70000);
  CHECK(refusal(many + BeginRecord(kMaxTransfers + 1, "", 70000)) ==
        "at most 1024 transfers are unfinished at once");
}

TEST_CASE("stopping from inside a callback ends the turn") {
  Feed feed;
  const std::string stream = Hello() + MessageRecord("a", "1") + BeginRecord(1, "b", 70000) +
                             MessageRecord("c", "3") + MessageRecord("d", "4");
  SECTION("in Admit") {
    feed.on_admit = [&](Ticket ticket) {
      if (ticket == 3) feed.Stop();
      return Admission{};
    };
    REQUIRE(feed.Give(stream).ok());
    CHECK(feed.order == std::vector<Ticket>{1});
  }
  SECTION("in OnMessage") {
    feed.on_message = [&](Ticket ticket) {
      if (ticket == 3) feed.Stop();
    };
    REQUIRE(feed.Give(stream).ok());
    CHECK(feed.order == std::vector<Ticket>{1, 3});
  }
  CHECK(feed.pool().stats().leased_bytes == 0);
}

TEST_CASE("payloads above 4 KiB are received in place") {
  Feed feed;
  const std::string body = Pattern(8192);
  REQUIRE(feed.Give(Hello() + MessageRecord("head", body)).ok());  // it could not know
  const uint64_t before = feed.assembler().payload_bytes_copied();
  for (int i = 0; i < 10; ++i) REQUIRE(feed.Give(MessageRecord("head", body)).ok());
  CHECK(feed.assembler().payload_bytes_copied() == before);

  const std::string large = Pattern(1 << 20);
  for (uint32_t i = 1; i <= 4; ++i) {
    std::string stream = BeginRecord(i, "head", large.size());
    for (size_t at = 0; at < large.size(); at += kMaxChunk) {
      stream += ChunkRecord(i, at, std::string_view(large).substr(at, kMaxChunk));
    }
    REQUIRE(feed.Give(stream).ok());
  }
  CHECK(feed.assembler().payload_bytes_copied() == before);
  CHECK(feed.messages.size() == 15);

  // Small ones are copied once.
  REQUIRE(
      feed.Give(MessageRecord("head", "0123456789") + MessageRecord("head", "0123456789")).ok());
  const uint64_t after = feed.assembler().payload_bytes_copied();
  REQUIRE(feed.Give(MessageRecord("head", "0123456789")).ok());
  CHECK(feed.assembler().payload_bytes_copied() == after + 10);
}

}  // namespace
}  // namespace farcall::tcp
