// The end of a server: whatever its handlers and peers do, it comes, and what it says is true.

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "farcall/tests/rpc/scripted.h"

namespace farcall::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

AskT Waiting(uint64_t ms, std::string action = "") {
  AskT ask;
  ask.number = ms;
  ask.action = std::move(action);
  return ask;
}

// A call on a thread of its own.
std::future<absl::Status> Start(const Channel& channel, AskT ask) {
  return std::async(std::launch::async, [channel, ask = std::move(ask)] {
    return Probe::Client(channel).Wait(ask, {.timeout = seconds(60)}).status();
  });
}

bool Contains(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// ---- coroutines that are destroyed ----

TEST_CASE("a coroutine handler that is destroyed before it finished ends its call") {
  Stage stage;
  const Channel channel = stage.Dial();
  for (int round = 1; round <= 3; ++round) {
    const absl::Status status = Start(channel, Waiting(0, "drop")).get();
    CHECK(absl::IsInternal(status));
    CHECK(Contains(status, "Probe/Wait was destroyed before it finished"));
    CHECK(stage.probe.destroyed == round);
  }
  CHECK(Start(channel, Waiting(0)).get().ok());
  REQUIRE(Eventually([&] { return stage.server->stats().calls_running == 0; }));
  CHECK(stage.server->Shutdown(seconds(60)).ok());
}

TEST_CASE("likewise on another thread, at any time") {
  Stage stage;
  const Channel channel = stage.Dial();
  std::future<absl::Status> call = Start(channel, Waiting(0, "keep"));
  REQUIRE(Eventually([&] { return stage.probe.keeps.load(); }));
  stage.probe.kept.reset();
  CHECK(absl::IsInternal(call.get()));
  CHECK(stage.probe.destroyed == 1);

  // While the server waits for it, its connection long gone.
  stage.probe.keeps = false;
  call = Start(channel, Waiting(0, "keep"));
  REQUIRE(Eventually([&] { return stage.probe.keeps.load(); }));
  std::thread ending([&] { stage.server.reset(); });
  CHECK(absl::IsUnavailable(call.get()));
  stage.probe.kept.reset();
  ending.join();
  CHECK(stage.probe.destroyed == 2);
}

// ---- loops that stand still ----

TEST_CASE("a server ends on loops that nobody drives any more, with a coroutine suspended there") {
  const auto loop = std::make_shared<EventLoop>(EventLoopOptions{.helper_thread = false});
  Stage stage({.external_loops = {loop}});
  std::atomic<bool> abandoned{false};
  std::thread driver([&] {
    while (!abandoned) {
      if (loop->RunOnce() == 0) std::this_thread::sleep_for(milliseconds(1));
    }
  });
  const Channel channel = stage.Dial();
  std::future<absl::Status> call = Start(channel, Waiting(3'600'000));
  REQUIRE(Eventually([&] { return stage.probe.ran == 1; }));
  abandoned = true;
  driver.join();
  const absl::Status shut = stage.server->Shutdown(milliseconds(10));
  CHECK(absl::IsDeadlineExceeded(shut));
  CHECK(Contains(shut, "1 calls were cut short"));  // this thread drove
  stage.server.reset();
  CHECK(stage.probe.cancelled == 1);
  CHECK_FALSE(call.get().ok());
}

TEST_CASE("a shutdown that cannot reach a loop does not say that nothing was cut") {
  Stage stage;
  std::promise<void> let_go;
  stage.probe.on_do = [&] { let_go.get_future().wait(); };
  const Channel channel = stage.Dial();
  std::future<absl::Status> suspended = Start(channel, Waiting(3'600'000));
  REQUIRE(Eventually([&] { return stage.probe.ran == 1; }));
  std::future<absl::Status> blocking = std::async(std::launch::async, [&] {
    Probe::Client client(channel);
    return client.Do(Asking(client, "x"), {.timeout = seconds(60)}).status();
  });
  REQUIRE(Eventually([&] { return stage.probe.ran == 2; }));
  const absl::Status shut = stage.server->Shutdown(milliseconds(10));
  CHECK(absl::IsDeadlineExceeded(shut));
  CHECK(Contains(shut, "1 of 1 loops"));
  CHECK(Contains(shut, "2 calls run"));
  let_go.set_value();
  CHECK_FALSE(suspended.get().ok());
  blocking.get().IgnoreError();  // it finished in time, or just not
}

// ---- peers that stay ----

// A server on a loop that the test turns, and peers that never close.
struct ServedWorld : World {
  ServedWorld() {
    server = std::make_unique<Server>(ServerOptions{.external_loops = {loop}});
    REQUIRE(server->Add(Probe::Bind(probe)).ok());
    REQUIRE(server->Listen(transport, endpoint).ok());
  }
  ~ServedWorld() {
    During([this] { server.reset(); }, Duration(0));
    Settle();
  }

  // Runs `work` on another thread, and the world meanwhile: time passes by `step`. Returns how much
  // of it did.
  Duration During(const std::function<void()>& work, Duration step) {
    std::atomic<bool> done{false};
    std::thread other([&] {
      work();
      done = true;
    });
    const TimePoint start = clock.Now();
    while (!done) {
      Pass(step);
      std::this_thread::sleep_for(milliseconds(1));
    }
    other.join();
    return clock.Now() - start;
  }

  std::unique_ptr<Peer> Greeted() {
    std::unique_ptr<Connection> made;
    std::unique_ptr<Transport::PendingConnect> pending;
    OnLoop([&] {
      pending = transport->Connect(*loop, endpoint, clock.Now() + seconds(1),
                                   [&](absl::StatusOr<std::unique_ptr<Connection>> connection) {
                                     if (connection.ok()) made = *std::move(connection);
                                   });
    });
    Settle();
    REQUIRE(made != nullptr);
    OnLoop([&] { pending.reset(); });
    auto peer = std::make_unique<Peer>(*this, std::move(made));
    peer->SayHello();
    Settle();
    peer->Next(FrameType::kHello);
    return peer;
  }

  ProbeImpl probe;
  std::unique_ptr<Server> server;
};

TEST_CASE("a draining server leaves peers that stay without a call, but no others") {
  ServedWorld world;
  const auto idle = world.Greeted();
  const auto busy = world.Greeted();
  busy->Say({.type = FrameType::kRequest,
             .call = 1,
             .method = Probe::WaitMethod::info().id,
             .timeout_ns = UINT64_MAX},
            {}, AskBody(world, "keep"));
  world.Settle();
  REQUIRE(world.probe.keeps);
  world.server->Drain();
  world.Settle();
  CHECK(idle->Next(FrameType::kGoAway).status.ok());
  CHECK(busy->Next(FrameType::kGoAway).status.ok());
  world.Pass(milliseconds(1005));
  CHECK_FALSE(idle->closed());
  world.Pass(milliseconds(1005));
  CHECK(absl::IsUnavailable(idle->Next(FrameType::kGoAway).status));
  CHECK(idle->closed());
  for (int i = 0; i < 50; ++i) world.Pass(milliseconds(100));
  CHECK_FALSE(busy->closed());
  world.probe.kept.reset();
  world.Settle();
  CHECK(absl::IsInternal(busy->Next(FrameType::kReply).status));
  world.Pass(milliseconds(1005));
  CHECK_FALSE(busy->closed());
  world.Pass(milliseconds(1005));
  CHECK(busy->closed());
}

TEST_CASE("a deaf peer without calls does not hold a shutdown up for its whole grace") {
  ServedWorld world;
  const auto deaf = world.Greeted();
  absl::Status shut;
  const Duration took =
      world.During([&] { shut = world.server->Shutdown(hours(1)); }, milliseconds(100));
  CHECK(shut.ok());
  CHECK(took >= seconds(1));
  CHECK(took < seconds(60));
  CHECK(deaf->closed());
}

}  // namespace
}  // namespace farcall::testing
