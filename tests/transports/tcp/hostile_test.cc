// Peers that break the rules, each with a socket and nothing else: they harm their own connection.

#include <catch2/catch.hpp>
#include <chrono>
#include <new>
#include <string>
#include <vector>

#include "farcall/tests/transports/tcp/node.h"
#include "farcall/tests/transports/tcp/raw_socket.h"
#include "farcall/tests/transports/tcp/wire.h"
#include "farcall/transports/tcp/tcp.h"

namespace farcall::tcp {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

struct Violation {
  std::string name;
  std::string bytes;
  std::string says;
};

std::vector<Violation> Violations() {
  const std::string hello = Hello();
  std::string flags = Record({});
  flags[1] = 1;
  std::string kind = Record({});
  kind[0] = 9;
  return {
      {"HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "it speaks HTTP, not Farcall"},
      {"TLS", std::string("\x16\x03\x01\x02\x00\x01", 6), "it speaks TLS, not Farcall"},
      {"noise", "\x7f\x45\x4c\x46garbage", "does not speak Farcall: its first bytes are"},
      {"another version", "FARCALL\x09",
       "it speaks version 9 of the Farcall TCP wire, this side 1"},
      {"unknown kind", hello + kind, "the kind of a record is 1 to 5, not 9"},
      {"flags", hello + flags, "the flags of a record are 0, not 1"},
      {"oversize head", hello + Record({.head = 4097}), "a head is at most 4096 bytes, not 4097"},
      {"oversize inline payload", hello + Record({.body = 65537}),
       "is at most 65536 bytes, not 65537"},
      {"small BEGIN", hello + BeginRecord(1, "", 5), "of a BEGIN is more than 65536 bytes, not 5"},
      {"overflow", hello + BeginRecord(1, "", ~uint64_t{0}, 1), "together fit 64 bits"},
      {"CHUNK without BEGIN", hello + ChunkRecord(1, 0, "x"), "that is under way, not 1"},
      {"CHUNK out of order", hello + BeginRecord(1, "h", 70000) + ChunkRecord(1, 5, "x"),
       "chunks come in order: offset 0 of transfer 1 is next, not 5"},
      {"oversize CHUNK",
       hello + Record({.kind = RecordKind::kChunk, .transfer = 1, .length = 2097153}),
       "the length of a CHUNK is 1 to 2097152, not 2097153"},
      {"ABANDON of nothing", hello + AbandonRecord(1),
       "an ABANDON names a transfer that began, not 1"},
  };
}

TEST_CASE("a rule broken closes the connection, names rule and peer, and harms nobody else") {
  Node server(MakeTcpTransport());
  const Endpoint address = server.Listen();
  RawSocket good = RawSocket::Connect(address);
  good.Write(Hello());
  Link& good_link = server.Accepted();

  for (const Violation& violation : Violations()) {
    CAPTURE(violation.name);
    RawSocket peer = RawSocket::Connect(address);
    Link& link = server.Accepted();
    peer.Write(violation.bytes);
    const absl::Status status = link.WaitClosed();
    CHECK(status.code() == absl::StatusCode::kUnavailable);
    CHECK_THAT(std::string(status.message()), StartsWith("tcp://127.0.0.1:"));
    CHECK_THAT(std::string(status.message()), Contains(violation.says));
    CHECK(link.info().counters.violations == 1);
    std::string got;
    CHECK(peer.ReadToEnd(&got));
    CHECK(got == Hello());
  }

  good.Write(MessageRecord("still here", "x"));
  CHECK(good_link.WaitMessage(1) == "still here");
}

TEST_CASE("a server that is none is named to the client") {
  Node client(MakeTcpTransport());
  RawSocket listener = RawSocket::Listen(*ParseEndpoint("tcp://127.0.0.1:0"));
  Link* link = client.Connect(listener.address()).value();
  RawSocket peer = listener.Accept();
  peer.Write("HTTP/1.1 400 Bad Request\r\n\r\n");
  CHECK(link->WaitClosed().message() ==
        listener.address().ToString() + ": cannot talk to the peer: it speaks HTTP, not Farcall");
}

TEST_CASE("a stream that ends says where") {
  Node server(MakeTcpTransport());
  const Endpoint address = server.Listen();
  struct End {
    std::string bytes, says;
  };
  const std::string message = MessageRecord("head", "0123456789");
  for (const End& end : std::vector<End>{
           {"", "the peer closed the connection before its preamble was whole (0 of 8 bytes)"},
           {"FARC", "closed the connection before its preamble was whole (4 of 8 bytes)"},
           {Hello(), "the peer closed the connection"},
           {Hello() + message.substr(0, 10),
            "closed the connection inside a record's prefix (10 of 24 bytes)"},
           {Hello() + message.substr(0, 26), "inside a message's head (2 of 4 bytes)"},
           {Hello() + message.substr(0, 30),
            "inside a message's payload (8 bytes of the record missing)"},
           {Hello() + BeginRecord(1, "h", 70000), "with 1 large payloads unfinished"}}) {
    RawSocket peer = RawSocket::Connect(address);
    Link& link = server.Accepted();
    peer.Write(end.bytes);
    peer.Finish();
    const absl::Status status = link.WaitClosed();
    CHECK(status.code() == absl::StatusCode::kUnavailable);
    CHECK_THAT(std::string(status.message()), Contains(end.says));
    CHECK(link.info().counters.violations == 0);
    CHECK(peer.ReadToEnd());
  }
  RawSocket peer = RawSocket::Connect(address);
  Link& link = server.Accepted();
  peer.Write(Hello() + message.substr(0, 26));
  REQUIRE(server.Wait([&] { return link.connection->info().counters.receive_calls > 0; }));
  peer.Reset();
  CHECK_THAT(
      std::string(link.WaitClosed().message()),
      Contains("receiving inside a message's head (2 of 4 bytes): Connection reset by peer"));
}

TEST_CASE("a peer that says nothing is let go") {
  TcpOptions options;
  options.handshake_timeout = std::chrono::milliseconds(50);
  Node server(MakeTcpTransport(options));
  RawSocket silent = RawSocket::Connect(server.Listen());
  Link& link = server.Accepted();
  CHECK_THAT(std::string(link.WaitClosed().message()),
             Contains("the peer did not begin to speak Farcall within 50 ms"));
  CHECK(silent.Read(8) == Hello());
  CHECK(silent.ReadToEnd());
}

TEST_CASE("what was sent last reaches a peer that is still talking") {
  Node server(MakeTcpTransport());
  server.on_link = [](Link& link) {
    // Refuses the first message with words, and closes with the rest unread.
    link.on_message = [](Link& self, Message&) {
      Message goodbye;
      const auto head = goodbye.head.Resize(7);
      std::memcpy(head.data(), "goodbye", 7);
      self.connection->Send(std::move(goodbye), nullptr);
      self.connection->Close(absl::OkStatus());
    };
  };
  RawSocket peer = RawSocket::Connect(server.Listen());
  std::string much = Hello();
  for (int i = 0; i < 1000; ++i) much += MessageRecord("head", Pattern(1000));
  peer.Write(much);
  std::string got;
  CHECK(peer.ReadToEnd(&got));
  CHECK(got == Hello() + MessageRecord("goodbye", ""));
}

TEST_CASE("a peer that never reads fills a bounded queue and can be closed") {
  TcpOptions options;
  options.limits.max_queued_bytes = 4 << 20;
  Node server(MakeTcpTransport(options));
  RawSocket peer = RawSocket::Connect(server.Listen());
  peer.Write(Hello());
  Link& link = server.Accepted();
  const std::string body = Pattern(60000);
  int refused = 0, others = 0, ended = 0;
  constexpr int kSends = 1000;
  server.On([&] {
    for (int i = 0; i < kSends; ++i) {
      link.connection->Send(
          MakeMessage(*link.connection->pool(), "h", body), [&](SendResult result) {
            ++ended;
            if (result.status.ok()) return;
            const bool full = result.status.code() == absl::StatusCode::kResourceExhausted;
            if (full) CHECK_FALSE(result.sent);
            ++(full ? refused : others);
          });
    }
  });
  REQUIRE(server.Wait([&] { return refused > 0; }));
  CHECK(link.connection->pool()->stats().leased_bytes < size_t{64} << 20);
  link.Close();
  CHECK(link.WaitClosed().ok());
  CHECK(server.Wait([&] { return ended == kSends; }));
}

TEST_CASE("transfers begun and aborted without reading leave nothing behind") {
  Node server(MakeTcpTransport());
  server.on_link = [](Link& link) {
    link.admit = [](MessageSizes) { return Admission{absl::ResourceExhaustedError("no"), {}}; };
  };
  RawSocket peer = RawSocket::Connect(server.Listen());
  Link& link = server.Accepted();
  std::string stream = Hello();
  for (uint32_t i = 1; i <= 20000; ++i)
    stream += BeginRecord(i, "", uint64_t{1} << 40) + AbortRecord(i);
  CHECK(peer.Write(stream));
  CHECK(peer.Write(MessageRecord("alive", "x")));
  REQUIRE(server.Wait([&] { return link.connection->info().counters.receive_calls > 0; }));
  peer.Finish();
  CHECK(link.WaitClosed().message() ==
        link.info().peer_address + ": the peer closed the connection");
  std::string answers;
  CHECK(peer.ReadToEnd(&answers));
  // An ABANDON for a transfer that is over already need not be sent.
  CHECK(answers.size() <= 8 + 20000 * kPrefixBytes);
}

TEST_CASE("a peer that announces all memory takes none of it") {
  struct Case {
    const char* name;
    uint64_t body, attachment;
    size_t begins;
    bool one_byte_each;
  };
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  for (const Case& hostile : {Case{"two BEGIN of 2 GiB", kGiB, kGiB, 2, false},
                              Case{"one of 4 GiB", 2 * kGiB, 2 * kGiB, 1, false},
                              Case{"1024 of 2 MiB, a byte of each", 1 << 20, 1 << 20, 1024, true},
                              Case{"1024 of 1 GiB, a byte of each", kGiB, 0, 1024, true}}) {
    CAPTURE(hostile.name);
    Node server(MakeTcpTransport());
    const Endpoint address = server.Listen();
    std::vector<RawSocket> peers;
    std::string stream = Hello();
    for (uint32_t i = 1; i <= hostile.begins; ++i) {
      stream += BeginRecord(i, "h", hostile.body, hostile.attachment);
    }
    for (uint32_t i = 1; hostile.one_byte_each && i <= hostile.begins; ++i) {
      stream += ChunkRecord(i, 0, "x");
    }
    stream += MessageRecord("all is said", "x");
    for (int i = 0; i < 4; ++i) {
      peers.push_back(RawSocket::Connect(address));
      Link& link = server.Accepted();
      size_t heads = 0;
      server.On([&] { link.on_message = [&heads](Link&, Message&) { ++heads; }; });
      peers.back().Write(stream);
      REQUIRE(server.Wait([&] { return heads > 0; }));
    }
    RawSocket good = RawSocket::Connect(address);
    Link& link = server.Accepted();
    std::string got;
    server.On([&] { link.on_message = [&](Link&, Message& m) { got = m.body.view(); }; });
    const std::string large = Pattern(100000);
    good.Write(Hello() + MessageRecord(std::string(100, 'h'), Pattern(50000)));
    CHECK(link.WaitMessage(1) == std::string(100, 'h'));
    good.Write(BeginRecord(1, "large", large.size()) + ChunkRecord(1, 0, large));
    CHECK(link.WaitMessage(2) == "large");
    server.On([&] { CHECK((got == large)); });
  }
}

TEST_CASE("large payloads leave small messages their memory") {
  TcpOptions options;
  options.receive_pool_bytes = 4 << 20;
  Node server(MakeTcpTransport(options));
  const Endpoint address = server.Listen();
  std::vector<Message> kept;  // as by handlers that run
  server.on_link = [&](Link& link) {
    link.on_message = [&](Link&, Message& message) { kept.push_back(std::move(message)); };
  };
  RawSocket greedy = RawSocket::Connect(address);
  Link& link = server.Accepted();
  const std::string large = Pattern(256 << 10);
  greedy.Write(Hello());
  for (uint32_t i = 1; i <= 20; ++i) {
    greedy.Write(BeginRecord(i, "large", large.size()) + ChunkRecord(i, 0, large));
  }
  CHECK_THAT(link.WaitMessage(20), StartsWith("abandoned: " + link.info().peer_address +
                                              ": tcp receive pool: no room for"));
  RawSocket modest = RawSocket::Connect(address);
  Link& small_link = server.Accepted();
  modest.Write(Hello());
  for (int i = 0; i < 8; ++i) modest.Write(MessageRecord(std::string(100, 'h'), Pattern(50000)));
  for (size_t i = 1; i <= 8; ++i) CHECK(small_link.WaitMessage(i) == std::string(100, 'h'));
  server.On([&] { kept.clear(); });
}

TEST_CASE("a connection for which no memory is left ends alone") {
  for (const bool in_admit : {true, false}) {
    Node server(MakeTcpTransport());
    const Endpoint address = server.Listen();
    RawSocket good = RawSocket::Connect(address);
    good.Write(Hello());
    Link& good_link = server.Accepted();
    server.on_link = [&](Link& link) {
      if (in_admit) {
        link.admit = [](MessageSizes) -> Admission { throw std::bad_alloc(); };
      } else {
        link.on_message = [](Link&, Message&) { throw std::bad_alloc(); };
      }
    };
    RawSocket peer = RawSocket::Connect(address);
    Link& link = server.Accepted();
    peer.Write(Hello() + BeginRecord(1, "large", 100000) + MessageRecord("head", "body"));
    const absl::Status status = link.WaitClosed();
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK(status.message() ==
          link.info().peer_address + ": no memory is left for what the peer sends");
    good.Write(MessageRecord("still here", "x"));
    CHECK(good_link.WaitMessage(1) == "still here");
  }
}

}  // namespace
}  // namespace farcall::tcp
