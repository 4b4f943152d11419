// The end of a channel, wherever its last handle goes: in callbacks, coroutines and handlers, with
// calls under way, on a loop of its own and on a shared one.

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/rpc/probe.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Options for every kind of loop that a channel may have.
std::vector<std::function<ChannelOptions()>> Loops() {
  std::vector<std::function<ChannelOptions()>> loops;
  for (const ProgressMode mode :
       {ProgressMode::kEvent, ProgressMode::kBusy, ProgressMode::kAdaptive}) {
    loops.push_back([mode] { return ChannelOptions{.mode = mode}; });
  }
  const auto shared = std::make_shared<EventLoop>();
  loops.push_back([shared] { return ChannelOptions{.loop = shared}; });
  // Shared, but nobody else keeps it.
  loops.push_back([] { return ChannelOptions{.loop = std::make_shared<EventLoop>()}; });
  return loops;
}

// A channel that goes when it is told to: nobody else has a handle.
struct Held {
  Held(const Stage& stage, ChannelOptions options)
      : channel(stage.Dial(std::move(options))), client(std::in_place, *channel) {}
  void Drop() {
    client.reset();
    channel.reset();
  }

  std::optional<Channel> channel;
  std::optional<Probe::Client> client;
};

struct Ends {
  std::atomic<int> ok{0}, cancelled{0}, other{0};
  int all() const { return ok + cancelled + other; }
  void Count(const absl::Status& status) {
    ++(status.ok() ? ok : absl::IsCancelled(status) ? cancelled : other);
  }
};

void StartWaits(Probe::Client& client, Ends& ends, int count) {
  AskT ask;
  ask.number = 60'000;
  for (int i = 0; i < count; ++i) {
    client.AsyncWait(
        ask, {.timeout = seconds(60)},
        [&ends](const absl::StatusOr<Msg<Answer>>& reply) { ends.Count(reply.status()); });
  }
}

TEST_CASE("the last handle goes in a callback, with calls under way") {
  for (const auto& options : Loops()) {
    Stage stage;
    for (int round = 0; round < 20; ++round) {
      Ends waits;
      std::promise<void> dropped;
      Held held(stage, options());
      StartWaits(*held.client, waits, 10);
      AskT ask;
      held.client->AsyncObject(ask, {}, [&](const absl::StatusOr<Msg<Answer>>& reply) {
        CHECK(reply.ok());
        held.Drop();
        dropped.set_value();
      });
      REQUIRE(dropped.get_future().wait_for(seconds(20)) == std::future_status::ready);
      REQUIRE(Eventually([&] { return waits.all() == 10; }));
      CHECK(waits.cancelled == 10);
    }
  }
}

TEST_CASE("the last handle goes in a coroutine on the channel's loop") {
  for (const auto& options : Loops()) {
    Stage stage;
    for (int round = 0; round < 20; ++round) {
      Ends waits;
      std::promise<void> dropped;
      const auto work = [&](std::unique_ptr<Held> held) -> asio::awaitable<void> {
        StartWaits(*held->client, waits, 5);
        AskT ask;
        for (int i = 0; i < 3; ++i) {
          const auto reply = co_await held->client->AsyncObject(ask, {}, asio::use_awaitable);
          CHECK(reply.ok());
        }
        held.reset();
        dropped.set_value();
      };
      auto held = std::make_unique<Held>(stage, options());
      const LoopExecutor executor = held->channel->loop().executor();
      asio::co_spawn(executor, work(std::move(held)), asio::detached);
      REQUIRE(dropped.get_future().wait_for(seconds(20)) == std::future_status::ready);
      REQUIRE(Eventually([&] { return waits.all() == 5; }));
      CHECK(waits.cancelled == 5);
    }
  }
}

TEST_CASE("the last handle goes in the callback of a call that the channel's end ended") {
  for (const auto& options : Loops()) {
    Stage stage;
    Ends ends;
    auto first = std::make_unique<Held>(stage, options());
    auto second = std::make_unique<Held>(stage, options());
    AskT ask;
    ask.number = 60'000;
    first->client->AsyncWait(ask, {}, [&](const absl::StatusOr<Msg<Answer>>& reply) {
      ends.Count(reply.status());
      second.reset();
    });
    second->client->AsyncWait(
        ask, {}, [&](const absl::StatusOr<Msg<Answer>>& reply) { ends.Count(reply.status()); });
    REQUIRE(Eventually([&] { return stage.probe.ran == 2; }));
    first.reset();
    REQUIRE(Eventually([&] { return ends.all() == 2; }));
    CHECK(ends.cancelled == 2);
  }
}

TEST_CASE("the last handle goes in a callback that a lost connection caused") {
  for (const auto& options : Loops()) {
    auto stage = std::make_unique<Stage>();
    Ends ends;
    Held held(*stage, options());
    AskT ask;
    ask.number = 60'000;
    for (int i = 0; i < 10; ++i) {
      held.client->AsyncWait(ask, {}, [&, i](const absl::StatusOr<Msg<Answer>>& reply) {
        if (i == 3) held.Drop();
        ends.Count(reply.status());
      });
    }
    REQUIRE(Eventually([&] { return stage->probe.ran == 10; }));
    stage->server.reset();
    REQUIRE(Eventually([&] { return ends.all() == 10; }));
    CHECK(ends.other == 10);
  }
}

TEST_CASE("the last handle goes in a callback that tells that nobody is there") {
  for (const auto& options : Loops()) {
    Stage stage;
    stage.server.reset();
    for (int round = 0; round < 10; ++round) {
      Ends ends;
      Held held(stage, options());
      held.channel->loop().Post([&] {  // there, so that no callback comes before the last start
        AskT ask;
        for (int i = 0; i < 5; ++i) {
          held.client->AsyncObject(ask, {}, [&, i](const absl::StatusOr<Msg<Answer>>& reply) {
            if (i == 0) held.Drop();
            ends.Count(reply.status());
          });
        }
      });
      REQUIRE(Eventually([&] { return ends.all() == 5; }));
      CHECK(ends.ok == 0);
    }
  }
}

TEST_CASE("a channel that goes at once, from another thread, ends every call once") {
  for (const auto& options : Loops()) {
    Stage stage;
    for (int round = 0; round < 100; ++round) {
      Ends ends;
      {
        Held held(stage, options());
        AskT ask;
        for (int i = 0; i < round % 5; ++i) {
          held.client->AsyncObject(ask, {}, [&](const absl::StatusOr<Msg<Answer>>& reply) {
            ends.Count(reply.status());
          });
        }
        if (round % 3 == 0) std::this_thread::yield();
      }
      REQUIRE(Eventually([&] { return ends.all() == round % 5; }));
      CHECK(ends.other == 0);
    }
  }
}

TEST_CASE("handles go on several threads while others make calls") {
  for (const auto& options : Loops()) {
    Stage stage;
    for (int round = 0; round < 10; ++round) {
      Ends ends;
      std::vector<std::thread> threads;
      {
        const Channel channel = stage.Dial(options());
        for (int thread = 0; thread < 4; ++thread) {
          threads.emplace_back([&ends, thread, mine = std::optional<Channel>(channel)]() mutable {
            Probe::Client client(*mine);
            mine.reset();
            AskT ask;
            for (int i = 0; i < 5; ++i) {
              if (thread % 2 == 0) {
                ends.Count(client.Object(ask).status());
              } else {
                client.AsyncObject(ask, {}, [&ends](const absl::StatusOr<Msg<Answer>>& reply) {
                  ends.Count(reply.status());
                });
              }
            }
          });
        }
      }
      for (std::thread& thread : threads) thread.join();
      REQUIRE(Eventually([&] { return ends.all() == 20; }));
      CHECK(ends.other == 0);
      CHECK(ends.ok >= 10);  // the blocking ones
    }
  }
}

TEST_CASE("a blocked caller runs a callback that drops another channel of its loop") {
  Stage stage;
  for (int round = 0; round < 20; ++round) {
    ChannelOptions options;
    options.loop = std::make_shared<EventLoop>();
    Held stays(stage, options);
    Held goes(stage, options);
    options.loop.reset();
    Ends ends;
    StartWaits(*goes.client, ends, 3);
    AskT ask;
    goes.client->AsyncObject(ask, {}, [&](const absl::StatusOr<Msg<Answer>>& reply) {
      ends.Count(reply.status());
      goes.Drop();
    });
    while (ends.all() < 4) REQUIRE(stays.client->Object(ask).ok());
    CHECK(ends.ok == 1);
    CHECK(ends.cancelled == 3);
  }
}

TEST_CASE("a handler drops a channel that lives on the server's own loop, or on another") {
  for (const bool same_loop : {true, false}) {
    const auto loop = std::make_shared<EventLoop>(EventLoopOptions{.dedicated = true});
    Stage stage({.external_loops = {loop}});
    ChannelOptions options;
    if (same_loop) options.loop = loop;
    Channel caller = stage.Dial();
    Probe::Client client(caller);
    for (int round = 0; round < 20; ++round) {
      Ends ends;
      auto held = std::make_unique<Held>(stage, options);
      StartWaits(*held->client, ends, 5);
      stage.probe.on_do = [&] { held.reset(); };
      REQUIRE(client.Do(Asking(client, "drop it")).ok());
      stage.probe.on_do = nullptr;
      REQUIRE(Eventually([&] { return ends.all() == 5; }));
      CHECK(ends.cancelled == 5);
    }
  }
}

TEST_CASE("cancelling beside the channel's end is harmless") {
  for (const auto& options : Loops()) {
    Stage stage;
    for (int round = 0; round < 30; ++round) {
      Ends ends;
      asio::cancellation_signal signal;
      {
        Held held(stage, options());
        AskT ask;
        ask.number = 60'000;
        held.client->AsyncWait(ask, {},
                               asio::bind_cancellation_slot(
                                   signal.slot(), [&](const absl::StatusOr<Msg<Answer>>& reply) {
                                     ends.Count(reply.status());
                                   }));
        if (round % 2 == 0) signal.emit(asio::cancellation_type::terminal);
      }
      signal.emit(asio::cancellation_type::terminal);
      REQUIRE(Eventually([&] { return ends.all() == 1; }));
      CHECK(ends.cancelled == 1);
    }
  }
}

}  // namespace
}  // namespace farcall::testing
