// A side that accepts a connection and closes it at once: it may not speak before its peer has, and
// what it says is heard all the same.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "farcall/tests/transports/rdma/engine_testing.h"

namespace farcall::testing {
namespace {

class Ear final : public Receiver {
 public:
  Admission Admit(Ticket, std::span<const std::byte>, MessageSizes) override { return {}; }
  void OnMessage(Ticket, Message&& message) override {
    const auto head = message.head.bytes();
    heard.emplace_back(reinterpret_cast<const char*>(head.data()), head.size());
  }
  void OnAbandoned(Ticket, absl::Status) override {}
  void OnClosed(absl::Status status) override { closed = std::move(status); }

  std::vector<std::string> heard;
  std::optional<absl::Status> closed;
};

Message Saying(const std::string& text) {
  Message message;
  std::memcpy(message.head.Resize(text.size()).data(), text.data(), text.size());
  return message;
}

// A server that says `words` to whoever comes, and closes; and one who comes.
struct Refusal {
  explicit Refusal(std::vector<std::string> words) {
    auto listening =
        server_side->Listen(endpoint, {&server_loop},
                            [this, words](EventLoop&, std::unique_ptr<Connection> connection) {
                              connection->Start(server);
                              for (const std::string& text : words) {
                                connection->Send(Saying(text), [this](const SendResult& result) {
                                  CHECK_FALSE(result.status.ok());  // Close came before
                                  results.push_back(result.sent);
                                });
                              }
                              connection->Close(absl::CancelledError("no room"));
                              accepted = std::move(connection);
                            });
    REQUIRE(listening.ok());
    listener = *std::move(listening);
    client_loop.Post([this] {
      connecting = client_side->Connect(client_loop, endpoint, client_loop.now() + kPatience,
                                        [this](absl::StatusOr<std::unique_ptr<Connection>> made) {
                                          REQUIRE(made.ok());
                                          connected = *std::move(made);
                                          connected->Start(client);
                                        });
    });
  }
  ~Refusal() {
    client_loop.Post([this] {
      connected.reset();
      connecting.reset();
    });
    server_loop.Post([this] { accepted.reset(); });
    Until([&] { return connected == nullptr && accepted == nullptr; });
    listener->Stop();
    for (const auto& pool : server_side->pools()) CHECK(pool->stats().leased_bytes == 0);
  }

  bool Until(const std::function<bool()>& done) {
    const TimePoint end = Clock::Steady().Now() + kPatience;
    while (!done()) {
      if (Clock::Steady().Now() > end) return false;
      client_loop.RunOnce();
      server_loop.RunOnce();
    }
    return true;
  }

  static ShmOptions LateToSpeak() {
    ShmOptions options;
    options.device.faults.faults = {
        {.kind = softnic::Fault::Kind::kDelay, .on = rdma::Opcode::kSend, .nth = 1, .polls = 500}};
    return options;
  }

  const Endpoint endpoint = NewShmName();
  const std::shared_ptr<Transport> server_side = MakeShmTransport();
  const std::shared_ptr<Transport> client_side = MakeShmTransport(LateToSpeak());
  EventLoop server_loop{{.mode = ProgressMode::kEvent, .helper_thread = false}};
  EventLoop client_loop{{.mode = ProgressMode::kEvent, .helper_thread = false}};
  Ear server, client;
  std::vector<bool> results;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Transport::PendingConnect> connecting;
  std::unique_ptr<Connection> accepted, connected;
};

TEST_CASE("what is said before a close at once is heard, in order, before the end", "[softnic]") {
  Refusal refusal({"there is no room", "come again"});
  REQUIRE(refusal.Until([&] { return refusal.client.closed.has_value(); }));
  CHECK(refusal.client.heard == std::vector<std::string>{"there is no room", "come again"});
  CHECK(refusal.results == std::vector<bool>{true, true});
  CHECK(refusal.server.closed.has_value());
}

TEST_CASE("who closes at once and destroys the connection is heard, too", "[softnic]") {
  Refusal refusal({"there is no room"});
  REQUIRE(refusal.Until([&] { return refusal.accepted != nullptr; }));
  CHECK(refusal.client.heard.empty());
  refusal.server_loop.Post([&] { refusal.accepted.reset(); });
  REQUIRE(refusal.Until([&] { return refusal.client.closed.has_value(); }));
  CHECK(refusal.client.heard == std::vector<std::string>{"there is no room"});
}

TEST_CASE("more than is sent at once ends unsent", "[softnic]") {
  Refusal refusal(std::vector<std::string>(40, "word"));
  REQUIRE(refusal.Until([&] { return refusal.client.closed.has_value(); }));
  REQUIRE(refusal.results.size() == 40);
  const auto sent = std::count(refusal.results.begin(), refusal.results.end(), true);
  CHECK(sent >= 1);
  CHECK(sent < 40);
  CHECK(refusal.client.heard.size() == static_cast<size_t>(sent));
}

TEST_CASE("a peer that says nothing is not waited for longer than a second", "[softnic]") {
  Refusal refusal({"there is no room"});
  REQUIRE(refusal.Until([&] { return refusal.accepted != nullptr; }));
  // The server's loop goes on alone.
  const TimePoint start = Clock::Steady().Now();
  while (Clock::Steady().Now() - start < std::chrono::milliseconds(1300)) {
    refusal.server_loop.RunOnce();
  }
  CHECK(refusal.server.closed.has_value());
  REQUIRE(refusal.Until([&] { return refusal.client.closed.has_value(); }));
  CHECK(refusal.client.heard.empty());
}

}  // namespace
}  // namespace farcall::testing
