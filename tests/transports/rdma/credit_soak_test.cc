// Credits at length: four receives a side, none to spare, and no patience for a SEND that finds
// none, so that one too many, either way, ends the connection. All counters pass 2^32 on the way.
//
//   FARCALL_SOAK_MESSAGES=10000000 ctest -R credit_soak

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "farcall/rpc/event_loop.h"
#include "farcall/tests/from_environment.h"
#include "farcall/tests/rpc/probe.h"
#include "farcall/tests/transports/rdma/engine_testing.h"
#include "farcall/transports/rdma/settings.h"

namespace farcall::testing {
namespace {

constexpr uint64_t kSeed = 0x9e3779b97f4a7c15;

uint64_t Word(uint64_t number, size_t i) { return (number + 1) * kSeed + i; }

// Eager ones of every length, some of nothing but a head, some that are read.
size_t SizeOf(uint64_t number) {
  if (number % 7 == 0) return 2000;
  if (number % 5 == 0) return 0;
  return number % 500;
}

// Keeps some messages on their way, checks what comes, and lets a few of those lie about.
class Player final : private Receiver {
 public:
  Player(EventLoop& loop, uint64_t messages, size_t holds)
      : loop_(loop), messages_(messages), holds_(holds) {}

  EventLoop& loop() { return loop_; }
  // Any thread.
  bool connected() const { return connected_.load(std::memory_order_acquire); }
  uint64_t received() const { return received_.load(std::memory_order_acquire); }
  uint64_t done() const { return done_.load(std::memory_order_acquire); }
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // While nobody drives, or on the loop.
  const std::string& wrong() const { return wrong_; }
  const Connection& connection() const { return *connection_; }

  // ---- on the loop ----
  void Take(std::unique_ptr<Connection> connection) {
    connection_ = std::move(connection);
    connection_->Start(*this);
    connected_ = true;
  }
  void Play() {
    constexpr int kOutstanding = 12;  // thrice what the peer has receives for
    for (int i = 0; i < kOutstanding; ++i) SendNext();
  }
  void End() {
    held_.clear();
    connection_ = nullptr;
  }

 private:
  void SendNext() {
    if (next_ == messages_) return;
    const uint64_t number = next_++;
    Message message;
    std::memcpy(message.head.Resize(sizeof number).data(), &number, sizeof number);
    if (const size_t bytes = SizeOf(number); bytes > 0) {
      message.body = connection_->pool()->Allocate(bytes).value();
      for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        const uint64_t word = Word(number, i);
        std::memcpy(message.body.data() + i, &word, std::min(sizeof word, bytes - i));
      }
    }
    connection_->Send(std::move(message), [this](const SendResult& result) {
      if (!result.status.ok()) return Wrong(result.status.ToString());
      done_.store(done_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      SendNext();
    });
  }

  void Wrong(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
    ended_ = true;
  }
  void Check(const Message& message, uint64_t number) {
    const size_t bytes = SizeOf(number);
    if (message.body.size() != bytes || !message.attachment.empty()) {
      return Wrong("message " + std::to_string(number) + " has another size");
    }
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
      const uint64_t word = Word(number, i);
      if (std::memcmp(message.body.data() + i, &word, std::min(sizeof word, bytes - i)) != 0) {
        return Wrong("message " + std::to_string(number) + " has other bytes");
      }
    }
  }

  Admission Admit(Ticket, std::span<const std::byte>, MessageSizes) override { return {}; }
  void OnMessage(Ticket, Message&& message) override {
    uint64_t number = 0;
    std::memcpy(&number, message.head.data(), sizeof number);
    const uint64_t expected = received();
    if (number != expected) Wrong("message " + std::to_string(number) + " came out of order");
    Check(message, number);
    if (holds_ > 0) {  // a slow handler: beyond the spare buffers
      held_.push_back(std::move(message));
      if (held_.size() == holds_) held_.clear();
    }
    received_.store(expected + 1, std::memory_order_release);
  }
  void OnAbandoned(Ticket, absl::Status status) override { Wrong(status.ToString()); }
  void OnClosed(absl::Status status) override { Wrong("closed: " + status.ToString()); }

  EventLoop& loop_;
  const uint64_t messages_;
  const size_t holds_;
  std::unique_ptr<Connection> connection_;
  std::vector<Message> held_;
  uint64_t next_ = 0;
  std::string wrong_;
  std::atomic<bool> connected_{false}, ended_{false};
  std::atomic<uint64_t> received_{0}, done_{0};
};

// Two loops with threads of their own, or one that the test steps.
class Loops {
 public:
  explicit Loops(bool threads) : threads_(threads) {
    const EventLoopOptions options{.mode = ProgressMode::kEvent, .helper_thread = threads};
    client_.emplace(options);
    if (threads) server_.emplace(options);
  }

  EventLoop& client() { return *client_; }
  EventLoop& server() { return threads_ ? *server_ : *client_; }
  bool Until(const std::function<bool()>& done) {
    if (threads_) return Eventually(done);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      for (int i = 0; i < 64; ++i) client_->RunOnce();
    }
    return true;
  }
  void On(EventLoop& loop, const std::function<void()>& work) {
    std::atomic<bool> ran = false;
    loop.Post([&] {
      work();
      ran = true;
    });
    REQUIRE(Until([&] { return ran.load(); }));
  }

 private:
  const bool threads_;
  std::optional<EventLoop> client_, server_;
};

// Behind which the counters of SENDs, transfers and work requests pass 2^32: each within a hundred
// of its own kind.
constexpr uint32_t kCountFrom = UINT32_MAX - 100;

TEST_CASE("millions of messages with four receives, both ways, and counters that pass 2^32") {
  const bool threads = GENERATE(false, true);
  const uint64_t all = FromEnvironment("FARCALL_SOAK_MESSAGES", kSanitized ? 12'000 : 2'000'000);
  const uint64_t each_way = all / 4;
  INFO((threads ? "two threads" : "one thread") << ", " << each_way << " messages each way");
  RdmaOptions options;
  options.receive_depth = 4;
  options.eager_bytes = 512;
  const auto settings = rdma::MakeSettings(
      "shm", [] { return softnic::MakeSoftnicDevice({}); }, options);
  settings->count_from = kCountFrom;
  const std::shared_ptr<Transport> transport = rdma::MakeTransport(settings);
  Loops loops(threads);
  Player client(loops.client(), each_way, 0), server(loops.server(), each_way, 50);

  const auto listener = transport->Listen(NewShmName(), {&server.loop()},
                                          [&](EventLoop&, std::unique_ptr<Connection> connection) {
                                            server.Take(std::move(connection));
                                          });
  REQUIRE(listener.ok());
  std::unique_ptr<Transport::PendingConnect> connecting;
  loops.On(client.loop(), [&] {
    connecting = transport->Connect(client.loop(), (*listener)->address(),
                                    client.loop().now() + std::chrono::seconds(10),
                                    [&](absl::StatusOr<std::unique_ptr<Connection>> connection) {
                                      if (connection.ok()) client.Take(*std::move(connection));
                                    });
  });
  REQUIRE(loops.Until([&] { return client.connected() && server.connected(); }));
  for (Player* player : {&client, &server}) loops.On(player->loop(), [&] { player->Play(); });

  // As long as it goes on: what stands still for so long stands for ever.
  const auto progress = [&] { return client.received() + server.received(); };
  const auto ended = [&] { return client.ended() || server.ended(); };
  for (uint64_t last = 0; last < 2 * each_way && !ended(); last = progress()) {
    const uint64_t next = std::min(last + 10'000, 2 * each_way);
    loops.Until([&] { return progress() >= next || ended(); });
    REQUIRE(progress() > last);
  }
  CHECK(loops.Until([&] { return client.done() + server.done() == 2 * each_way || ended(); }));
  for (Player* player : {&client, &server}) {
    loops.On(player->loop(), [&] {
      CHECK(player->wrong() == "");
      CHECK(player->received() == each_way);
      const RdmaCounters counters = RdmaCountersOf(player->connection()).value();
      CHECK(counters.rendezvous_messages == (each_way + 6) / 7);
      CHECK(counters.rendezvous_messages > uint64_t{UINT32_MAX} - kCountFrom);
      CHECK(counters.credit_stalls > 0);
    });
  }
  for (Player* player : {&client, &server}) loops.On(player->loop(), [&] { player->End(); });
  loops.On(client.loop(), [&] { connecting = nullptr; });
}

}  // namespace
}  // namespace farcall::testing
