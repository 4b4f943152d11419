// A million messages between two loops that sleep whenever they have nothing to do: a wake-up that
// is lost stops the game for ever.

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "farcall/rpc/event_loop.h"
#include "farcall/tests/rpc/probe.h"
#include "farcall/tests/transports/rdma/engine_testing.h"

namespace farcall::testing {
namespace {

// Sends some messages when it is its turn; the last of them hands the turn over. Meanwhile its loop
// sleeps. Between all of it: gaps of any length, about as long as falling asleep takes.
class Player final : private Receiver {
 public:
  Player(EventLoop& loop, uint32_t seed, std::atomic<uint64_t>& left)
      : loop_(loop), random_(seed), left_(left) {}
  ~Player() override {
    std::atomic<bool> ended = false;
    loop_.Post([&] {
      connection_ = nullptr;
      ended = true;
    });
    REQUIRE(Eventually([&] { return ended.load(); }));
  }

  EventLoop& loop() { return loop_; }
  bool connected() const { return connected_; }
  uint64_t received() const { return received_; }
  bool closed() const { return closed_; }

  // ---- on the loop ----
  void Take(std::unique_ptr<Connection> connection) {
    connection_ = std::move(connection);
    connection_->Start(*this);
    connected_ = true;
  }
  void Play() {
    for (uint64_t more = std::min<uint64_t>(1 + random_() % 16, left_.load()); more > 0; --more) {
      --left_;
      Send(/*turn=*/more == 1);
      if (random_() % 4 == 0) Pause();
    }
  }

 private:
  void Send(bool turn) {
    Message message;
    message.head.Resize(1)[0] = std::byte{turn};
    const size_t bytes = random_() % 64 == 0 ? 10'000 : random_() % 400;
    message.body = connection_->pool()->Allocate(bytes).value();
    connection_->Send(std::move(message), nullptr);
  }

  void Pause() {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(random_() % 20'000);
    while (std::chrono::steady_clock::now() < end) {
    }
  }

  Admission Admit(Ticket, std::span<const std::byte>, MessageSizes) override { return {}; }
  void OnMessage(Ticket, Message&& message) override {
    received_.store(received_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (*message.head.data() != std::byte{1}) return;
    if (random_() % 2 == 0) Pause();
    Play();
  }
  void OnAbandoned(Ticket, absl::Status) override { closed_ = true; }
  void OnClosed(absl::Status) override { closed_ = true; }

  EventLoop& loop_;
  std::minstd_rand random_;
  std::atomic<uint64_t>& left_;  // messages of the game; it is for whoever has the turn
  std::unique_ptr<Connection> connection_;
  std::atomic<bool> connected_{false}, closed_{false};
  std::atomic<uint64_t> received_{0};
};

TEST_CASE("a million messages at random gaps between loops that sleep: no wake-up is lost") {
  const uint32_t seed = GENERATE(1U, 2U);
  INFO("seed=" << seed);
  constexpr uint64_t kMessages = kSanitized ? 50'000 : 500'000;  // each time
  std::atomic<uint64_t> left = kMessages;
  EventLoop client_loop({.mode = ProgressMode::kEvent}),
      server_loop({.mode = ProgressMode::kEvent});
  ShmOptions options;
  options.rdma.receive_depth = seed == 1 ? 64 : 8;
  const std::shared_ptr<Transport> transport = MakeShmTransport(options);
  Player client(client_loop, seed, left), server(server_loop, seed + 100, left);
  const auto listener = transport->Listen(NewShmName(), {&server_loop},
                                          [&](EventLoop&, std::unique_ptr<Connection> connection) {
                                            server.Take(std::move(connection));
                                          });
  REQUIRE(listener.ok());
  std::unique_ptr<Transport::PendingConnect> connecting;
  client_loop.Post([&] {
    connecting = transport->Connect(client_loop, (*listener)->address(),
                                    client_loop.now() + std::chrono::seconds(10),
                                    [&](absl::StatusOr<std::unique_ptr<Connection>> connection) {
                                      if (connection.ok()) client.Take(*std::move(connection));
                                    });
  });
  REQUIRE(Eventually([&] { return client.connected() && server.connected(); }));
  client_loop.Post([&] { client.Play(); });

  // Nobody but the two is there to wake anybody: what stands still for so long stands for ever.
  const auto received = [&] { return client.received() + server.received(); };
  for (uint64_t last = 0; last < kMessages; last = received()) {
    REQUIRE(Eventually([&] { return received() > last; }));
    REQUIRE_FALSE(client.closed());
    REQUIRE_FALSE(server.closed());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(received() == kMessages);
  std::atomic<bool> done = false;
  client_loop.Post([&] {
    connecting = nullptr;
    done = true;
  });
  REQUIRE(Eventually([&] { return done.load(); }));
}

}  // namespace
}  // namespace farcall::testing
