// What is counted: exact numbers after scripted calls between a real channel and a real server, on
// one loop that the test steps and a clock that it moves.

#include "farcall/rpc/metrics.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/rpc/connection_list.h"
#include "farcall/rpc/method_tally.h"
#include "farcall/tests/rpc/scripted.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kOk = static_cast<size_t>(absl::StatusCode::kOk);
constexpr auto kCancelled = static_cast<size_t>(absl::StatusCode::kCancelled);
constexpr auto kDeadline = static_cast<size_t>(absl::StatusCode::kDeadlineExceeded);
constexpr auto kNotFound = static_cast<size_t>(absl::StatusCode::kNotFound);
constexpr auto kUnimplemented = static_cast<size_t>(absl::StatusCode::kUnimplemented);
constexpr auto kUnavailable = static_cast<size_t>(absl::StatusCode::kUnavailable);
constexpr auto kExhausted = static_cast<size_t>(absl::StatusCode::kResourceExhausted);
constexpr auto kInvalid = static_cast<size_t>(absl::StatusCode::kInvalidArgument);

uint64_t Sum(const CountsByStatus& counts) {
  uint64_t sum = 0;
  for (const uint64_t count : counts) sum += count;
  return sum;
}

struct Both : World {
  explicit Both(ServerOptions options = {}) {
    options.external_loops = {loop};
    server = std::make_unique<Server>(std::move(options));
    REQUIRE(server->Add(Probe::Bind(probe)).ok());
    REQUIRE(server->Listen(transport, endpoint).ok());
  }

  ~Both() {
    client.reset();
    channel.reset();
    StopServer();
    Settle();
    CHECK(pool->stats().leased_bytes == 0);
  }

  void Dial() {
    channel.emplace(transport, endpoint, ChannelOptions{.loop = loop});
    client.emplace(*channel);
    Settle();
  }

  void StopServer() {
    if (server == nullptr) return;
    // The server waits for its loops while it ends: this thread turns the one that it has.
    std::atomic<bool> gone{false};
    std::thread ending([&] {
      server.reset();
      gone = true;
    });
    while (!gone) Turn();
    ending.join();
  }

  // Starts a call of Do; its status is in what is returned when it ended.
  std::shared_ptr<absl::Status> Do(const std::string& action, CallOptions options = {}) {
    auto status = std::make_shared<absl::Status>(absl::UnknownError("pending"));
    client->AsyncDo(
        Asking(*client, action), options,
        [status](const absl::StatusOr<Msg<Answer>>& reply) { *status = reply.status(); });
    return status;
  }
  // A call of the coroutine, whose handler goes on until it is cancelled.
  void Wait(CallOptions options, asio::cancellation_slot slot) {
    Builder<Ask> request = client->NewWait();
    request.Finish(CreateAsk(request, 0, 3'600'000));
    client->AsyncWait(
        std::move(request), options,
        asio::bind_cancellation_slot(slot, [](const absl::StatusOr<Msg<Answer>>&) {}));
  }

  // By its short name; zeros when it was never called.
  template <class Metrics>
  static MethodStats Of(const Metrics& metrics, const std::string& name) {
    for (const MethodStats& method : metrics.methods) {
      if (method.name == "farcall.testing.Probe/" + name) return method;
    }
    return {};
  }

  ProbeImpl probe;
  std::unique_ptr<Server> server;
  std::optional<Channel> channel;
  std::optional<Probe::Client> client;
};

TEST_CASE("calls that succeed and fail are counted by method and status on both sides") {
  Both world;
  world.probe.on_do = [&] { world.clock.Advance(milliseconds(3)); };
  world.Dial();
  for (int i = 0; i < 5; ++i) {
    world.Do("fine");
    world.Settle();
  }
  for (int i = 0; i < 2; ++i) {
    world.Do("fail");
    world.Settle();
  }
  const ServerMetrics server = world.server->metrics();
  const ChannelMetrics channel = world.channel->metrics();

  REQUIRE(server.methods.size() == 1);
  const MethodStats& served = server.methods.front();
  CHECK(served.name == "farcall.testing.Probe/Do");
  CHECK(served.started == 7);
  CHECK(served.running == 0);
  CHECK(served.ended[kOk] == 5);
  CHECK(served.ended[kNotFound] == 2);
  CHECK(Sum(served.ended) == 7);
  CHECK(served.refused == 0);
  CHECK(served.dropped == 0);
  CHECK(served.latency.count() == 7);
  CHECK(served.latency.max() == 3'000'000);
  CHECK(served.latency.Mean() == 3e6);
  CHECK(server.totals.calls_started == 7);
  CHECK(server.totals.replies_ok == 5);
  CHECK(server.totals.replies_failed == 2);

  const MethodStats made = Both::Of(channel, "Do");
  CHECK(made.started == 7);
  CHECK(made.running == 0);
  CHECK(made.ended == served.ended);
  CHECK(made.not_sent == 0);
  CHECK(made.latency.count() == 7);
  CHECK(made.latency.max() == 3'000'000);
  CHECK(channel.totals.succeeded == 5);
  CHECK(channel.totals.failed == 2);
  // What one side sent the other received.
  CHECK(made.bytes_sent == served.bytes_received);
  CHECK(made.bytes_received == served.bytes_sent);
  CHECK(made.bytes_sent > 7 * kFrameHeaderBytes);
}

TEST_CASE("cancelled, late and unsent calls are counted as what they were") {
  Both world;
  world.Dial();
  asio::cancellation_signal cancel;
  world.Wait({}, cancel.slot());
  world.Settle();
  CHECK(Both::Of(world.server->metrics(), "Wait").running == 1);
  CHECK(Both::Of(world.channel->metrics(), "Wait").running == 1);
  CHECK(world.server->stats().calls_running == 1);
  CHECK(world.server->metrics().connections.at(0).calls_running == 1);
  CHECK(world.server->metrics().connections.at(0).held_bytes > 0);
  world.clock.Advance(milliseconds(7));
  world.OnLoop([&] { cancel.emit(asio::cancellation_type::terminal); });
  world.Settle();

  asio::cancellation_signal never;
  world.Wait({.timeout = milliseconds(50)}, never.slot());
  world.Settle();
  world.Pass(milliseconds(60));

  const auto unsent = world.Do("", {.timeout = Duration(-1)});
  world.Settle();
  CHECK(absl::IsDeadlineExceeded(*unsent));

  const MethodStats served = Both::Of(world.server->metrics(), "Wait");
  CHECK(served.started == 2);
  CHECK(served.running == 0);
  CHECK(served.ended[kCancelled] == 2);  // a coroutine ends so, whatever its caller's reason
  CHECK(served.dropped == 2);
  CHECK(served.bytes_sent == 0);
  CHECK(world.server->stats().replies_dropped == 2);
  CHECK(world.server->metrics().connections.at(0).held_bytes == 0);

  const ChannelMetrics channel = world.channel->metrics();
  const MethodStats made = Both::Of(channel, "Wait");
  CHECK(made.started == 2);
  CHECK(made.running == 0);
  CHECK(made.ended[kCancelled] == 1);
  CHECK(made.ended[kDeadline] == 1);
  CHECK(made.not_sent == 0);
  CHECK(made.latency.max() == 60'000'000);
  CHECK(made.latency.Quantile(0.5) == Approx(7e6).epsilon(1.0 / 16));
  CHECK(made.bytes_sent == served.bytes_received);
  CHECK(channel.totals.unknown == 2);

  const MethodStats none = Both::Of(channel, "Do");
  CHECK(none.started == 1);
  CHECK(none.ended[kDeadline] == 1);
  CHECK(none.not_sent == 1);
  CHECK(none.bytes_sent == 0);
  CHECK(Both::Of(world.server->metrics(), "Do").started == 0);
  // It was no connection's call.
  CHECK(channel.connections.at(0).calls_started == 2);
}

TEST_CASE("refusals are counted by reason, apart from calls that ran") {
  ServerOptions options;
  options.limits.max_body_bytes = 1000;
  Both world(options);
  world.Dial();
  world.Do("");
  world.Settle();
  // The server's HELLO keeps an oversize request at home.
  world.client->AsyncDo(Asking(*world.client, "", 0, 5000), {},
                        [](const absl::StatusOr<Msg<Answer>>&) {});
  world.Settle();
  auto peer = [&] {
    std::unique_ptr<Connection> made;
    std::unique_ptr<Transport::PendingConnect> pending;
    world.OnLoop([&] {
      pending = world.transport->Connect(
          *world.loop, world.endpoint, TimePoint::max(),
          [&](absl::StatusOr<std::unique_ptr<Connection>> got) { made = *std::move(got); });
    });
    world.Settle();
    world.OnLoop([&] { pending.reset(); });
    return std::make_unique<Peer>(world, std::move(made));
  }();
  peer->SayHello();
  const FrameHeader request{
      .type = FrameType::kRequest, .call = 1, .method = 7, .timeout_ns = 1'000'000'000};
  peer->Say(request);  // no such method
  FrameHeader oversize = request;
  oversize.method = Probe::DoMethod::info().id;
  peer->Say(oversize, {}, Garbage(world, 2000));
  peer->Say(oversize, {}, Garbage(world, 500));  // no FlatBuffer
  world.Settle();

  const ServerMetrics server = world.server->metrics();
  CHECK(server.calls_refused[kUnimplemented] == 1);
  CHECK(server.calls_refused[kExhausted] == 1);
  CHECK(server.calls_refused[kInvalid] == 1);
  CHECK(Sum(server.calls_refused) == 3);
  CHECK(server.totals.calls_refused == 3);
  CHECK(Both::Of(server, "Do").refused == 2);  // nobody knows what 7 is
  CHECK(Both::Of(server, "Do").started == 1);
  CHECK(server.methods.size() == 1);
  REQUIRE(server.connections.size() == 2);
  CHECK(server.connections[0].calls_refused == 0);
  CHECK(server.connections[1].calls_refused == 3);
  const MethodStats made = Both::Of(world.channel->metrics(), "Do");
  CHECK(made.ended[kExhausted] == 1);
  CHECK(made.not_sent == 1);
}

TEST_CASE("connections are counted from their first byte to the reason of their end") {
  ServerOptions options;
  options.max_connections = 2;
  Both world(options);
  world.Dial();
  world.Do("");
  world.Settle();
  world.Pass(seconds(2));

  ServerMetrics server = world.server->metrics();
  REQUIRE(server.connections.size() == 1);
  const ConnectionStats here = server.connections[0];
  CHECK(here.id == 1);
  CHECK(here.state == ConnectionStats::State::kReady);
  CHECK_THAT(here.peer, Catch::StartsWith("loopback://"));
  CHECK(here.transport == "loopback");
  CHECK(here.age == seconds(2));
  CHECK(here.calls_started == 1);
  CHECK(here.calls_running == 0);
  CHECK(here.counters.messages_received == 2);  // HELLO, the request
  CHECK(here.counters.messages_sent == 2);
  CHECK(here.counters.queued_messages == 0);
  CHECK(here.counters.queued_bytes == 0);
  CHECK(here.unread_answers == 0);
  CHECK(here.latency.count == 1);
  const ChannelMetrics channel = world.channel->metrics();
  REQUIRE(channel.connections.size() == 1);
  const ConnectionStats there = channel.connections[0];
  CHECK(there.peer == "loopback://world");
  CHECK(there.calls_started == 1);
  CHECK(there.counters.bytes_sent == here.counters.bytes_received);
  CHECK(there.counters.bytes_received == here.counters.bytes_sent);
  CHECK(there.latency.count == 1);
  CHECK(channel.state == ChannelInfo::State::kReady);
  CHECK(channel.totals.connects == 1);

  // One that is refused, one that breaks the rules, one that goes.
  std::vector<Channel> others;
  for (int i = 0; i < 2; ++i)
    others.emplace_back(world.transport, world.endpoint, ChannelOptions{.loop = world.loop});
  world.Settle();
  server = world.server->metrics();
  CHECK(server.totals.connections_accepted == 2);
  CHECK(server.totals.connections_refused >= 1);
  CHECK(server.handshakes_failed[kExhausted] == server.totals.connections_refused);
  CHECK(server.totals.connections_open == 2);
  others.clear();
  world.Settle();
  server = world.server->metrics();
  CHECK(server.totals.connections_open == 1);
  CHECK(Sum(server.connections_closed) == 1);
  CHECK(server.connections.size() == 1);
  REQUIRE_FALSE(server.closed.empty());
  const ConnectionStats& last = server.closed.back();
  CHECK(last.state == ConnectionStats::State::kClosed);
  CHECK_THAT(last.end, Catch::Contains("the channel was closed"));
  CHECK(world.channel->metrics().closed.empty());

  world.StopServer();
  world.Settle();
  const ChannelMetrics lost = world.channel->metrics();
  CHECK(lost.connections.empty());
  REQUIRE(lost.closed.size() == 1);
  CHECK_THAT(lost.closed[0].end, Catch::Equals("drained"));
  CHECK_FALSE(lost.last_error.empty());
}

TEST_CASE("the closed connections that are remembered are few and short") {
  ConnectionList list;
  for (uint64_t id = 1; id <= 100; ++id) {
    ConnectionStats closed;
    closed.id = id;
    closed.end = std::string(4096, 'x');
    list.KeepClosed(std::move(closed));
  }
  std::vector<ConnectionStats> kept;
  list.AppendClosed(kept);
  CHECK(kept.size() <= 16);
  CHECK(kept.back().id == 100);
  for (const ConnectionStats& closed : kept) CHECK(closed.end.size() <= 256);
}

TEST_CASE("what each connection and method holds for its numbers is little") {
  CHECK(sizeof(ConnectionTally) + sizeof(ConnectionLatency) <= 1536);
  CHECK(sizeof(MethodTally) <= 3072);
}

TEST_CASE("drained connections say so") {
  Both world;
  world.Dial();
  asio::cancellation_signal cancel;
  world.Wait({}, cancel.slot());
  world.Settle();
  world.server->Drain();
  world.Settle();
  CHECK(world.server->metrics().connections.at(0).state == ConnectionStats::State::kDraining);
  CHECK(world.channel->metrics().connections.at(0).state == ConnectionStats::State::kDraining);
  world.OnLoop([&] { cancel.emit(asio::cancellation_type::terminal); });
  world.Settle();
  CHECK(world.server->metrics().connections.empty());
  CHECK(world.server->metrics().connections_closed[kUnavailable] +
            world.server->metrics().connections_closed[kCancelled] ==
        1);
}

TEST_CASE("a dump has a line for each method, connection and pool") {
  Both world;
  world.Dial();
  world.Do("");
  world.Do("fail");
  world.Settle();
  const std::string server = Dump(world.server->metrics());
  CAPTURE(server);
  CHECK_THAT(server, Catch::Matches("[^]*server connections  open=1  accepted=1  refused=0 [^]*"));
  CHECK_THAT(server, Catch::Contains("server calls  started=2  running=0  ok=1  failed=1"));
  CHECK_THAT(server, Catch::Contains("\nmethod  farcall.testing.Probe/Do  started=2  running=0  "
                                     "ok=1  errors=NOT_FOUND=1  refused=0  dropped=0  bytes_in="));
  CHECK_THAT(server, Catch::Contains("\nconnection  #0.1  loopback://"));
  CHECK_THAT(server, Catch::Contains("\npool  "));
  const std::string channel = Dump(world.channel->metrics());
  CAPTURE(channel);
  CHECK_THAT(channel, Catch::StartsWith("channel loopback://world  ready  waiting=0  started=2"));
  CHECK_THAT(channel, Catch::Contains("errors=NOT_FOUND=1  refused=0  not_sent=0"));
  std::istringstream lines(server + channel);
  size_t methods = 0;
  size_t connections = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("method ")) ++methods;
    if (line.starts_with("connection ")) ++connections;
  }
  CHECK(methods == 2);
  CHECK(connections == 2);
}

TEST_CASE("anybody may read while calls run and connections come and go") {
  Stage stage({.loops = 2, .mode = ProgressMode::kEvent});
  const Channel channel = stage.Dial({.mode = ProgressMode::kEvent});
  std::atomic<bool> done{false};
  std::thread reading([&] {
    uint64_t ended = 0;
    bool grows = true;
    do {
      const ServerMetrics server = stage.server->metrics();
      const ChannelMetrics client = channel.metrics();
      uint64_t now = 0;
      for (const MethodStats& method : server.methods) now += Sum(method.ended);
      grows = grows && now >= ended && !Dump(server).empty() && !Dump(client).empty();
      ended = now;
    } while (!done);
    CHECK(grows);
  });
  std::vector<std::thread> calling;
  for (int i = 0; i < 2; ++i) {
    calling.emplace_back([&] {
      Channel mine = channel;
      Probe::Client client(mine);
      for (int call = 0; call < 300; ++call) {
        client.Do(Asking(client, "x"), {.wait_for_ready = true}).status().IgnoreError();
      }
    });
  }
  calling.emplace_back([&] {
    for (int i = 0; i < 30; ++i) {
      Channel passing = stage.Dial({.loop = channel.options().loop});
      Probe::Client client(passing);
      client.Do(Asking(client, "x"), {.wait_for_ready = true}).status().IgnoreError();
    }
  });
  for (std::thread& thread : calling) thread.join();
  done = true;
  reading.join();
  const ServerMetrics server = stage.server->metrics();
  CHECK(Both::Of(server, "Do").ended[kOk] == 630);
  CHECK(Both::Of(server, "Do").latency.count() == 630);
  CHECK(Both::Of(channel.metrics(), "Do").ended[kOk] == 600);
}

TEST_CASE("a loop that a handler holds up can be read") {
  Stage stage({.mode = ProgressMode::kEvent});
  std::atomic<bool> inside{false};
  std::atomic<bool> let_go{false};
  stage.probe.on_do = [&] {
    inside = true;
    while (!let_go) std::this_thread::sleep_for(milliseconds(1));
  };
  Channel channel = stage.Dial({.mode = ProgressMode::kEvent});
  Probe::Client client(channel);
  std::thread calling(
      [&] { client.Do(Asking(client, ""), {.wait_for_ready = true}).status().IgnoreError(); });
  REQUIRE(Eventually([&] { return inside.load(); }));
  const ServerMetrics held = stage.server->metrics();
  CHECK(Both::Of(held, "Do").running == 1);
  CHECK(held.connections.at(0).calls_running == 1);
  CHECK(Both::Of(channel.metrics(), "Do").running == 1);
  let_go = true;
  calling.join();
}

}  // namespace
}  // namespace farcall::testing
