// Addresses that lead nowhere: each call ends at its deadline or earlier, with the right code, not
// sent, and a message that names the address.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "farcall/rpc/outcome.h"
#include "farcall/transports/dial.h"
#include "journal.rpc.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A TCP socket that listens; its backlog accepts connections, and nobody ever reads or writes.
class SilentServer {
 public:
  SilentServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(socket_, generic, size) == 0);
    REQUIRE(::listen(socket_, 16) == 0);
    REQUIRE(::getsockname(socket_, generic, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentServer() { Stop(); }
  void Stop() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  std::string address() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

 private:
  int socket_;
  uint16_t port_ = 0;
};

absl::Status CallOnce(const std::string& address, const CallOptions& call,
                      const ChannelOptions& options = {}) {
  auto channel = Dial(address, options);
  if (!channel.ok()) return channel.status();
  EntryT entry;
  return Journal::Client(*channel).Note(entry, call).status();
}

bool Names(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

TEST_CASE("an address that cannot be read is refused by Dial and by Listen") {
  for (const char* address : {"", "x", "tcp://", "tcp://h", "tcp://h:99999", "tcp://h:x",
                              "gopher://h:1", "tcp://::1:80", "unix://", "rdma://h:0"}) {
    INFO(address);
    const absl::Status dialled = Dial(address).status();
    CHECK_FALSE(dialled.ok());
    CHECK(absl::IsInvalidArgument(dialled));
    Server server;
    CHECK_FALSE(Listen(server, address).ok());
  }
}

TEST_CASE("an address that no attempt can reach is refused by Dial") {
  for (const char* address : {"tcp://h:0", "auto://h:0", "unix://tmp/x.sock", "unix:///"}) {
    const absl::Status dialled = Dial(address).status();
    INFO(address << ": " << dialled);
    CHECK(absl::IsInvalidArgument(dialled));
  }
  const std::string long_path = "unix:///" + std::string(200, 'x');
  CHECK(absl::IsInvalidArgument(Dial(long_path).status()));
  Server server;
  CHECK(Listen(server, "auto://127.0.0.1:0").ok());
}

TEST_CASE("a port where nobody listens") {
  SilentServer server;
  const std::string address = server.address();
  server.Stop();
  const TimePoint start = Clock::Steady().Now();
  const absl::Status status = CallOnce(address, {.timeout = seconds(20)});
  CHECK(Clock::Steady().Now() - start < seconds(5));
  CHECK(absl::IsUnavailable(status));
  CHECK(OutcomeOf(status) == Outcome::kNotSent);
  CHECK(Names(status, address));
  CHECK(Names(status, "refused"));
}

TEST_CASE("a name that does not resolve") {
  const absl::Status status = CallOnce("tcp://no-such-host.invalid:7", {.timeout = seconds(10)});
  CHECK((absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)));
  CHECK(OutcomeOf(status) == Outcome::kNotSent);
  CHECK(Names(status, "no-such-host.invalid"));
}

TEST_CASE("a Unix socket that is not there") {
  const absl::Status status = CallOnce("unix:///nonexistent/farcall.socket", {});
  CHECK(absl::IsUnavailable(status));
  CHECK(Names(status, "/nonexistent/farcall.socket"));
}

TEST_CASE("a server that accepts and never answers: the deadline holds") {
  SilentServer server;
  const TimePoint start = Clock::Steady().Now();
  const absl::Status status = CallOnce(server.address(), {.timeout = milliseconds(300)});
  const Duration took = Clock::Steady().Now() - start;
  CHECK(absl::IsDeadlineExceeded(status));
  CHECK(OutcomeOf(status) == Outcome::kNotSent);
  CHECK(Names(status, server.address()));
  CHECK(took >= milliseconds(300));
  CHECK(took < seconds(5));
}

TEST_CASE("a server that accepts and never answers: the handshake is bounded, too") {
  SilentServer server;
  const absl::Status status = CallOnce(server.address(), {.timeout = seconds(20)},
                                       {.keepalive = {.handshake_timeout = milliseconds(200)}});
  CHECK(absl::IsUnavailable(status));
  CHECK(OutcomeOf(status) == Outcome::kNotSent);
  CHECK(Names(status, "HELLO"));
}

}  // namespace
}  // namespace farcall::testing
