// What is TCP's own beyond the contract: addresses, errors, system calls, large beside small.

#include "farcall/transports/tcp/tcp.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "farcall/rpc/log.h"
#include "farcall/tests/transports/tcp/node.h"
#include "farcall/tests/transports/tcp/raw_socket.h"
#include "farcall/tests/transports/tcp/wire.h"
#include "farcall/transports/tcp/address.h"
#include "farcall/transports/tcp/limits.h"

namespace farcall::tcp {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using std::chrono::seconds;

Endpoint Address(const std::string& text) { return ParseEndpoint(text).value(); }

std::string TempPath(const std::string& name) {
  return "/tmp/farcall-" + std::to_string(::getpid()) + "-" + name;
}

std::string ConnectError(const std::string& address, TcpOptions options = {},
                         Duration timeout = seconds(10)) {
  Node client(MakeTcpTransport(std::move(options)));
  const auto link = client.Connect(Address(address), timeout);
  REQUIRE_FALSE(link.ok());
  return link.status().ToString();
}

TEST_CASE("errors of connecting name address, cause and remedy") {
  const Endpoint closed = RawSocket::Listen(Address("tcp://127.0.0.1:0")).address();
  CHECK(ConnectError(closed.ToString()) ==
        "UNAVAILABLE: " + closed.ToString() +
            ": cannot connect: connection refused: is the server running?");
  CHECK(ConnectError("unix:///tmp/farcall-no-such") ==
        "UNAVAILABLE: unix:///tmp/farcall-no-such: cannot connect: no such socket file: is the "
        "server running?");
  CHECK_THAT(ConnectError("tcp://127.0.0.1:0"),
             StartsWith("INVALID_ARGUMENT") && Contains("port 0"));
  CHECK_THAT(ConnectError("unix:///" + std::string(200, 'x')),
             StartsWith("INVALID_ARGUMENT") && Contains("the path has 201 bytes"));
  CHECK_THAT(ConnectError("unix://tmp/x.sock"),
             StartsWith("INVALID_ARGUMENT") && Contains("write unix:///tmp/x.sock"));
  CHECK_THAT(ConnectError("unix:///tmp/"), StartsWith("INVALID_ARGUMENT") && Contains("a folder"));
  CHECK_THAT(ConnectError("loopback://x"),
             StartsWith("INVALID_ARGUMENT") && Contains("tcp://host:port and unix:///path"));
  TcpOptions options;
  options.congestion_control = "no-such-control";
  CHECK_THAT(ConnectError(closed.ToString(), options),
             StartsWith("INVALID_ARGUMENT") && Contains("congestion_control = no-such-control"));
  CHECK_THAT(ConnectError("tcp://no-such-host.invalid:7000"),
             Contains("no-such-host.invalid") &&
                 (Contains("does not resolve") || Contains("did not resolve in time")));
}

TEST_CASE("a name with several addresses is tried to the end") {
  // localhost is ::1 and 127.0.0.1, or the latter alone; the server has only the latter.
  Node server(MakeTcpTransport());
  Endpoint address = server.Listen("tcp://127.0.0.1:0");
  address.host = "localhost";
  Node client(MakeTcpTransport());
  const auto link = client.Connect(address);
  REQUIRE(link.ok());
  CHECK((*link)->info().peer_address == "tcp://127.0.0.1:" + std::to_string(address.port));
}

TEST_CASE("errors of listening name address and cause") {
  Node first(MakeTcpTransport());
  Node second(MakeTcpTransport());
  const Endpoint taken = first.Listen();
  CHECK(second.TryListen(taken.ToString()).message() ==
        taken.ToString() +
            ": cannot listen: Address already in use (another process listens there)");
  CHECK_THAT(std::string(second.TryListen("tcp://192.0.2.1:0").message()),
             Contains("it is not an address of this machine"));
  CHECK_THAT(std::string(second.TryListen("unix:///tmp/no/such/dir").message()),
             Contains("unix:///tmp/no/such/dir: cannot listen: there is no folder /tmp/no/such/"));
  // A port is free again as soon as its listener stopped.
  first.StopListening();
  CHECK(second.TryListen(taken.ToString()).ok());
}

TEST_CASE("the file of a Unix socket") {
  const std::string path = TempPath("socket");
  const std::string address = "unix://" + path;
  struct stat file {};
  {
    Node server(MakeTcpTransport());
    server.Listen(address);
    REQUIRE(::stat(path.c_str(), &file) == 0);
    CHECK((file.st_mode & 0777) == 0600);
    Node other(MakeTcpTransport());
    CHECK(other.TryListen(address).message() ==
          address + ": cannot listen: a live server has this socket");
    Node client(MakeTcpTransport());
    Link* link = client.Connect(Address(address)).value();
    CHECK(link->info().peer_address == address);
    CHECK_THAT(server.Accepted().info().peer_address,
               StartsWith(address + " (process " + std::to_string(::getpid())));
    server.StopListening();
    CHECK(::stat(path.c_str(), &file) != 0);
  }
  SECTION("left by a dead server it is replaced") {
    { RawSocket dead = RawSocket::Listen(Address(address)); }
    REQUIRE(::stat(path.c_str(), &file) == 0);
    TcpOptions options;
    options.unix_mode = 0660;
    Node server(MakeTcpTransport(options));
    server.Listen(address);
    REQUIRE(::stat(path.c_str(), &file) == 0);
    CHECK((file.st_mode & 0777) == 0660);
  }
  SECTION("anything else is left alone") {
    const int fd = ::creat(path.c_str(), 0600);
    ::close(fd);
    Node server(MakeTcpTransport());
    CHECK_THAT(std::string(server.TryListen(address).message()),
               Contains("the file exists and is not a socket"));
    CHECK(::unlink(path.c_str()) == 0);
  }
  CHECK(::stat(path.c_str(), &file) != 0);
}

// Sends the head back and forth.
void PingPong(Link& client, int rounds) {
  size_t before = 0;
  for (int i = 0; i < rounds; ++i) {
    client.Send("ping", "0123456789abcdef0123456789abcdef");
    client.WaitMessage(++before);
  }
}

TEST_CASE("a small call costs one send and one receive a side") {
  for (const ProgressMode mode : {ProgressMode::kEvent, ProgressMode::kAdaptive}) {
    Node server(MakeTcpTransport(), mode);
    server.on_link = Echo;
    const Endpoint address = server.Listen();
    Node client(MakeTcpTransport(), mode);
    Link& link = *client.Connect(address).value();
    PingPong(link, 20);
    const ConnectionCounters before = link.info().counters;
    Link& other = server.Accepted();
    const ConnectionCounters before_there = other.info().counters;
    // The client answers each answer by itself, so that nobody waits between.
    int left = 500;
    client.On([&] {
      link.on_message = [&](Link& self, Message& message) {
        if (--left <= 0) return;
        self.connection->Send(
            MakeMessage(*self.connection->pool(), HeadOf(message), message.body.view()), nullptr);
      };
    });
    link.Send("ping", "0123456789abcdef0123456789abcdef");
    REQUIRE(client.Wait([&] { return left == 0; }));
    for (const auto& [now, then] : {std::pair(link.info().counters, before),
                                    std::pair(other.info().counters, before_there)}) {
      CHECK(now.messages_sent - then.messages_sent == 500);
      CHECK(now.send_calls - then.send_calls == 500);
      CHECK(now.receive_calls - then.receive_calls == 500);
      CHECK(now.payload_bytes_copied - then.payload_bytes_copied == 2 * 500 * 32);  // both ways
    }
  }
}

TEST_CASE("messages of one turn leave in one system call, many of them in a few") {
  const auto [messages, calls] = GENERATE(std::pair(15, 1), std::pair(40, 3), std::pair(160, 10));
  Node server(MakeTcpTransport());
  const Endpoint address = server.Listen();
  Node client(MakeTcpTransport());
  Link& link = *client.Connect(address).value();
  PingPong(link, 0);
  link.Send("warm");
  Link& other = server.Accepted();
  other.WaitMessage(1);
  const ConnectionCounters before = link.info().counters;
  client.On([&link = link, messages = messages] {
    for (int i = 0; i < messages; ++i) {
      link.connection->Send(MakeMessage(*link.connection->pool(), "h", "body"), nullptr);
    }
  });
  other.WaitMessage(static_cast<size_t>(messages) + 1);
  CHECK(link.info().counters.send_calls - before.send_calls == static_cast<uint64_t>(calls));
}

TEST_CASE("small messages overtake a large payload on the same connection") {
  // Before the nodes: callbacks use them as long as a node lives.
  const std::string large = Pattern(1 << 20);
  std::string huge;
  for (int i = 0; i < 192; ++i) huge += large;
  int small_before_huge = 0;
  bool huge_back = false;
  Node server(MakeTcpTransport());
  server.on_link = Echo;
  const Endpoint address = server.Listen();
  Node client(MakeTcpTransport());
  Link& link = *client.Connect(address).value();
  client.On([&] {
    link.on_message = [&](Link& self, Message& message) {
      if (message.body.size() == huge.size()) {
        huge_back = message.body.view() == huge;
        return;
      }
      if (huge_back) return;  // the count is read now
      ++small_before_huge;
      self.connection->Send(MakeMessage(*self.connection->pool(), "small", "x"), nullptr);
    };
    link.connection->Send(MakeMessage(*link.connection->pool(), "huge", huge), nullptr);
    link.connection->Send(MakeMessage(*link.connection->pool(), "small", "x"), nullptr);
  });
  REQUIRE(client.Wait([&] { return huge_back; }));
  // Were they held up, there would be one. At some 5 GB/s hundreds fit into the time.
  CHECK(small_before_huge >= 20);
  // In place, but for what was read before the first chunk was known to follow.
  CHECK(link.info().counters.payload_bytes_copied < kReadBufferBytes + 100000);
}

// Address space that reads as zeros and takes no memory.
std::span<const std::byte> Zeros(size_t bytes) {
  void* base =
      ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(base != MAP_FAILED);
  return {static_cast<const std::byte*>(base), bytes};
}

TEST_CASE("a withdrawn payload of 1 GiB stops within two chunks") {
  constexpr size_t kBytes = size_t{1} << 30;
  const std::span<const std::byte> zeros = Zeros(kBytes);
  TcpOptions options;
  options.send_buffer_bytes = 64 << 10;  // what the kernel has is not ours to take back
  Node server(MakeTcpTransport(options));
  RawSocket peer = RawSocket::Connect(server.Listen());
  peer.Write(Hello());
  Link& link = server.Accepted();
  Ticket ticket = 0;
  std::optional<SendResult> result;
  server.On([&] {
    Message message = MakeMessage(*link.connection->pool(), "h", "");
    message.attachment = WrapBytes(
        zeros, [](void*) {}, nullptr);
    ticket = link.connection->Send(std::move(message),
                                   [&](SendResult ended) { result = std::move(ended); });
  });
  const std::string start = Hello() + BeginRecord(1, "h", 0, kBytes);
  CHECK(peer.Read(start.size()) == start);
  peer.Read(3 * kMaxChunk);
  uint64_t left_before = 0;
  server.On([&] {
    left_before = link.connection->info().counters.bytes_sent;
    link.connection->Withdraw(ticket);
  });
  REQUIRE(server.Wait([&] { return result.has_value(); }));
  CHECK(result->sent);
  CHECK(result->status.code() == absl::StatusCode::kCancelled);
  link.Close();
  std::string rest;
  peer.ReadToEnd(&rest);
  CHECK(link.info().counters.bytes_sent - left_before <= 2 * kLongChunk);
  ::munmap(const_cast<std::byte*>(zeros.data()), zeros.size());
}

// UBSan looks whether an object is one through a pipe: without descriptors it finds that none is.
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
#define FARCALL_TEST_NEEDS_DESCRIPTORS
#endif
#endif

#ifndef FARCALL_TEST_NEEDS_DESCRIPTORS
TEST_CASE("accepting waits out a lack of descriptors") {
  std::atomic<int> lines = 0;
  SetLogSink([&](LogLevel, std::string_view line) {
    if (line.find("no file descriptor left") != std::string_view::npos) ++lines;
  });
  Node server(MakeTcpTransport());
  const SocketAddress address = NumericAddress(server.Listen()).value();
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  // The kernel gives the lowest number that is free: with this one the process has all it may have.
  const int last = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const rlimit none{static_cast<rlim_t>(last) + 1, old.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  CHECK(::connect(last, address.data(), static_cast<socklen_t>(address.size())) == 0);
  std::this_thread::sleep_for(3 * kAcceptPause + kAcceptPause / 2);
  CHECK(lines == 1);
  ::setrlimit(RLIMIT_NOFILE, &old);
  CHECK(server.Accepted().info().transport == "tcp");
  SetLogSink(nullptr);
  ::close(last);
}
#endif

TEST_CASE("a spinning loop") {
  Node server(MakeTcpTransport(), ProgressMode::kBusy);
  server.on_link = Echo;
  const Endpoint address = server.Listen();
  Node client(MakeTcpTransport(), ProgressMode::kBusy);
  std::vector<Link*> links;
  for (size_t i = 0; i < 3 * kMaxHotSockets; ++i) links.push_back(client.Connect(address).value());
  size_t count = 0;
  for (int round = 0; round < 5; ++round) {
    ++count;
    for (Link* link : links) link->Send("ping", "x");
    for (Link* link : links) CHECK(link->WaitMessage(count) == "ping");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // long enough to go back to epoll
  }
}

TEST_CASE("two processes") {
  int pipes[2];
  REQUIRE(::pipe(pipes) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    uint16_t port = 0;
    if (::read(pipes[0], &port, sizeof(port)) != sizeof(port)) ::_exit(2);
    Node client(MakeTcpTransport());
    auto link = client.Connect(Address("tcp://127.0.0.1:" + std::to_string(port)));
    if (!link.ok()) ::_exit(3);
    PingPong(**link, 100);
    (*link)->Send("large", Pattern(8 << 20), Pattern(100000));
    if ((*link)->WaitMessage(101) != "large") ::_exit(4);
    (*link)->Send("bye");
    std::this_thread::sleep_for(seconds(60));  // until it is killed
    ::_exit(5);
  }
  Node server(MakeTcpTransport());
  server.on_link = Echo;
  const uint16_t port = server.Listen().port;
  REQUIRE(::write(pipes[1], &port, sizeof(port)) == sizeof(port));
  Link& link = server.Accepted();
  CHECK(link.WaitMessage(102) == "bye");
  ::kill(child, SIGKILL);
  const absl::Status status = link.WaitClosed();
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  int how = 0;
  CHECK(::waitpid(child, &how, 0) == child);
  CHECK(WIFSIGNALED(how));
  ::close(pipes[0]);
  ::close(pipes[1]);
}

}  // namespace
}  // namespace farcall::tcp
