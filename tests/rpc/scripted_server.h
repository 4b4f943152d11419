// A channel whose server is scripted.

#ifndef FARCALL_TESTS_RPC_SCRIPTED_SERVER_H_
#define FARCALL_TESTS_RPC_SCRIPTED_SERVER_H_

#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "farcall/tests/rpc/scripted.h"

namespace farcall::testing {

// A call under way, and how it ended.
struct Asked {
  void End(absl::StatusOr<Msg<Answer>> reply) {
    ++ended;
    status = reply.status();
    if (reply.ok()) answer.emplace(*std::move(reply));
    if (then) std::exchange(then, nullptr)();
  }

  int ended = 0;
  absl::Status status;
  std::optional<Msg<Answer>> answer;
  CallInfo info;
  std::function<void()> then;  // in the callback, afterwards
  asio::cancellation_signal cancel;
};

struct ClientWorld : World {
  explicit ClientWorld(ChannelOptions options = {}, TransportLimits transport_limits = {})
      : World(transport_limits), options_(std::move(options)) {
    options_.loop = loop;
    Open();
  }

  ~ClientWorld() {
    Settle();
    client.reset();
    channel.reset();
    Settle();
    accepted.clear();
    Shut();
    Settle();
    CHECK(pool->stats().leased_bytes == 0);
  }

  // Begins to accept, and stops.
  void Open() {
    auto opened = transport->Listen(
        endpoint, {loop.get()},
        [this](EventLoop& /*loop*/, std::unique_ptr<Connection> connection) {
          accepted.push_back(std::make_unique<Peer>(*this, std::move(connection), listens));
        });
    REQUIRE(opened.ok());
    listener = *std::move(opened);
  }
  void Shut() {
    OnLoop([this] { listener.reset(); });
  }

  void Dial() {
    channel.emplace(transport, endpoint, options_);
    client.emplace(*channel);
    Settle();
  }
  // The next connection that the channel made.
  std::unique_ptr<Peer> Accept() {
    REQUIRE_FALSE(accepted.empty());
    std::unique_ptr<Peer> peer = std::move(accepted.front());
    accepted.pop_front();
    return peer;
  }
  // A channel that is ready, and its peer.
  std::unique_ptr<Peer> Ready(const Hello& hello = Peer::UsualHello()) {
    if (!channel) Dial();
    auto peer = Accept();
    peer->SayHello(hello);
    Settle();
    if (listens) peer->Next(FrameType::kHello);
    REQUIRE(channel_state() == ChannelInfo::State::kReady);
    return peer;
  }

  // Starts a call; it is on its way after the next turn.
  std::shared_ptr<Asked> Ask(const std::string& action, CallOptions options = {},
                             size_t data_bytes = 0) {
    auto asked = std::make_shared<Asked>();
    options.info = &asked->info;
    client->AsyncDo(Asking(*client, action, 0, data_bytes), options,
                    asio::bind_cancellation_slot(asked->cancel.slot(),
                                                 [asked](absl::StatusOr<Msg<Answer>> reply) {
                                                   asked->End(std::move(reply));
                                                 }));
    return asked;
  }

  ChannelInfo info() {
    ChannelInfo told;
    OnLoop([&] { told = channel->info(); });
    return told;
  }
  ChannelInfo::State channel_state() { return info().state; }
  ChannelStats stats() { return info().stats; }

  bool listens = true;  // whether peers accepted from now on take anything in
  std::deque<std::unique_ptr<Peer>> accepted;
  std::unique_ptr<Listener> listener;
  std::optional<Channel> channel;
  std::optional<Probe::Client> client;

 private:
  ChannelOptions options_;
};

// The call ended once, with `code` and `outcome`, and both its status and its info say so.
inline void CheckEnded(const Asked& asked, absl::StatusCode code, Outcome outcome,
                       const std::string& text = "") {
  CHECK(asked.ended == 1);
  CHECK(asked.status.code() == code);
  CHECK(static_cast<int>(OutcomeOf(asked.status)) == static_cast<int>(outcome));
  CHECK(static_cast<int>(asked.info.outcome) == static_cast<int>(outcome));
  CHECK_THAT(std::string(asked.status.message()), Catch::Contains(text));
}

inline FrameHeader ReplyTo(const Heard& request, absl::StatusCode code = absl::StatusCode::kOk,
                           uint8_t flags = 0) {
  return {.type = FrameType::kReply,
          .flags = flags,
          .status = static_cast<uint16_t>(code),
          .call = request.header.call};
}

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_RPC_SCRIPTED_SERVER_H_
