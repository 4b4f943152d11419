// The life of a channel: connecting, waiting, losing the server, finding it again, ending.

#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <optional>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/rpc/probe.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

ChannelOptions Impatient() {
  return {.backoff = {.first = milliseconds(5), .max = milliseconds(20)}};
}

// A network that a server can leave and come back to.
struct Place {
  std::shared_ptr<Transport> transport =
      MakeLoopbackTransport({.network = MakeLoopbackNetwork(), .pool = {}, .limits = {}});
  Endpoint endpoint = *ParseEndpoint("loopback://place");
  ProbeImpl probe;

  std::unique_ptr<Server> Open(ServerOptions options = {}) {
    auto server = std::make_unique<Server>(std::move(options));
    REQUIRE(server->Add(Probe::Bind(probe)).ok());
    REQUIRE(server->Listen(transport, endpoint).ok());
    return server;
  }
};

TEST_CASE("a call to nobody fails at once, not sent, and says why") {
  Place place;
  Channel channel(place.transport, place.endpoint, Impatient());
  Probe::Client client(channel);
  const TimePoint start = Clock::Steady().Now();
  auto reply = client.Do(Asking(client, ""), {.timeout = seconds(20)});
  CHECK(Clock::Steady().Now() - start < seconds(5));
  CHECK(reply.status().code() == absl::StatusCode::kUnavailable);
  CHECK(OutcomeOf(reply.status()) == Outcome::kNotSent);
  const std::string message(reply.status().message());
  CHECK_THAT(message, Catch::StartsWith("loopback://place: ") && Catch::Contains("wait_for_ready"));
}

TEST_CASE("a callback that calls again at once, to nobody, leaves the loop its turns") {
  Place place;
  const auto loop = std::make_shared<EventLoop>(EventLoopOptions{.helper_thread = false});
  ChannelOptions options = Impatient();
  options.loop = loop;
  std::optional<Channel> channel(std::in_place, place.transport, place.endpoint, options);
  std::optional<Probe::Client> client(*channel);
  while (channel->info().state != ChannelInfo::State::kBackoff) loop->RunOnce();
  int failed = 0;
  bool answered = false;
  std::function<void()> call = [&] {
    client->AsyncDo(Asking(*client, ""), {.timeout = seconds(20)},
                    [&](const absl::StatusOr<Msg<Answer>>& reply) {
                      answered = reply.ok();
                      if (!answered) {
                        ++failed;
                        call();
                      }
                    });
  };
  call();
  for (int turns = 1; turns <= 10; ++turns) {
    loop->RunOnce();
    CHECK(failed <= 2 * turns);
  }
  auto server = place.Open();
  CHECK(Eventually([&] { return loop->RunOnce(), answered; }));
  client.reset();
  channel.reset();
  while (loop->RunOnce() > 0) {  // nobody else would close the connection
  }
}

TEST_CASE("wait_for_ready waits for a server that comes later") {
  Place place;
  Channel channel(place.transport, place.endpoint, Impatient());
  Probe::Client client(channel);
  auto late = client.AsyncDo(Asking(client, "late"),
                             {.timeout = seconds(20), .wait_for_ready = true}, asio::use_future);
  std::this_thread::sleep_for(milliseconds(50));
  auto server = place.Open();
  REQUIRE(late.wait_for(seconds(20)) == std::future_status::ready);
  CHECK(late.get().ok());
}

TEST_CASE("wait_for_ready does not wait where no attempt can succeed") {
  Place place;
  Channel channel(place.transport, {.scheme = "tcp", .host = "h", .port = 1, .path = {}},
                  {.backoff = {.first = seconds(60), .max = seconds(60)}});
  Probe::Client client(channel);
  for (int i = 0; i < 2; ++i) {  // one waits for the attempt, one comes after it
    auto reply = client.Do(Asking(client, ""), {.timeout = seconds(60), .wait_for_ready = true});
    CHECK(reply.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(OutcomeOf(reply.status()) == Outcome::kNotSent);
  }
  CHECK(channel.info().stats.connect_failures == 1);
}

TEST_CASE("the deadline of a call that waits names what it waited for") {
  Place place;
  Channel channel(place.transport, place.endpoint, Impatient());
  Probe::Client client(channel);
  auto reply = client.Do(Asking(client, ""), {.timeout = milliseconds(60), .wait_for_ready = true});
  CHECK(reply.status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(OutcomeOf(reply.status()) == Outcome::kNotSent);
  CHECK(std::string(reply.status().message()).find("the last attempt:") != std::string::npos);
}

TEST_CASE("the same channel reaches a server that was restarted") {
  Place place;
  Channel channel(place.transport, place.endpoint, Impatient());
  Probe::Client client(channel);
  for (int life = 0; life < 3; ++life) {
    auto server = place.Open();
    auto reply = client.Do(Asking(client, "life", static_cast<uint64_t>(life)),
                           {.timeout = seconds(20), .wait_for_ready = true});
    REQUIRE(reply.ok());
    CHECK((*reply)->number() == static_cast<uint64_t>(life));
  }
  CHECK(channel.info().stats.connects == 3);
}

TEST_CASE("calls under way when the connection is lost: outcome unknown") {
  Place place;
  auto server = place.Open();
  Channel channel(place.transport, place.endpoint, Impatient());
  Probe::Client client(channel);
  AskT ask;
  ask.number = 60'000;
  std::vector<std::future<absl::StatusOr<Msg<Answer>>>> calls;
  for (int i = 0; i < 64; ++i) calls.push_back(client.AsyncWait(ask, {}, asio::use_future));
  REQUIRE(Eventually([&] { return place.probe.ran == 64; }));
  server.reset();
  for (auto& call : calls) {
    REQUIRE(call.wait_for(seconds(20)) == std::future_status::ready);
    const absl::Status status = call.get().status();
    CHECK(status.code() == absl::StatusCode::kUnavailable);
    CHECK(OutcomeOf(status) == Outcome::kUnknown);
  }
}

TEST_CASE("a drained server finishes what it has and takes no more") {
  Place place;
  auto server = place.Open();
  Channel channel(place.transport, place.endpoint, Impatient());
  Probe::Client client(channel);
  AskT ask;
  ask.number = 200;
  auto slow = client.AsyncWait(ask, {}, asio::use_future);
  REQUIRE(Eventually([&] { return place.probe.ran == 1; }));
  absl::Status shut;
  std::thread shutting([&] { shut = server->Shutdown(seconds(20)); });
  REQUIRE(slow.wait_for(seconds(20)) == std::future_status::ready);
  CHECK(slow.get().ok());
  shutting.join();
  CHECK(shut.ok());
  auto refused = client.Do(Asking(client, "no more"));
  CHECK(refused.status().code() == absl::StatusCode::kUnavailable);
  CHECK(OutcomeOf(refused.status()) == Outcome::kNotSent);
}

TEST_CASE("a server that was shut down takes neither services nor addresses") {
  for (const bool drain : {true, false}) {
    Place place;
    Server server;
    if (drain) {
      server.Drain();
    } else {
      REQUIRE(server.Shutdown(seconds(1)).ok());
    }
    CHECK(server.Add(Probe::Bind(place.probe)).code() == absl::StatusCode::kFailedPrecondition);
    CHECK(server.Listen(place.transport, place.endpoint).status().code() ==
          absl::StatusCode::kFailedPrecondition);
    place.Open();  // the name is free
  }
}

TEST_CASE("a listener that is made beside a drain does not outlive it") {
  for (int i = 0; i < 200; ++i) {
    Place place;
    Server server({.loops = 0, .external_loops = {std::make_shared<EventLoop>()}});
    std::thread draining([&] { server.Drain(); });
    const absl::Status listens = server.Listen(place.transport, place.endpoint).status();
    draining.join();
    CHECK((listens.ok() || listens.code() == absl::StatusCode::kFailedPrecondition));
    Server next({.loops = 0, .external_loops = {std::make_shared<EventLoop>()}});
    REQUIRE(next.Listen(place.transport, place.endpoint).ok());
  }
}

TEST_CASE("a shutdown's bound cuts what does not end") {
  Place place;
  auto server = place.Open();
  Channel channel(place.transport, place.endpoint, Impatient());
  Probe::Client client(channel);
  AskT ask;
  ask.number = 60'000;
  auto stuck = client.AsyncWait(ask, {.timeout = seconds(60)}, asio::use_future);
  REQUIRE(Eventually([&] { return place.probe.ran == 1; }));
  const TimePoint start = Clock::Steady().Now();
  const absl::Status shut = server->Shutdown(milliseconds(50));
  CHECK(shut.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(Clock::Steady().Now() - start < seconds(10));
  REQUIRE(stuck.wait_for(seconds(20)) == std::future_status::ready);
  CHECK(stuck.get().status().code() == absl::StatusCode::kUnavailable);
  CHECK(Eventually([&] { return place.probe.cancelled == 1; }));
}

TEST_CASE("a channel that ends ends its calls") {
  Place place;
  auto server = place.Open();
  std::future<absl::StatusOr<Msg<Answer>>> call;
  {
    Channel channel(place.transport, place.endpoint, Impatient());
    Probe::Client client(channel);
    AskT ask;
    ask.number = 60'000;
    call = client.AsyncWait(ask, {}, asio::use_future);
    REQUIRE(Eventually([&] { return place.probe.ran == 1; }));
  }
  REQUIRE(call.wait_for(seconds(20)) == std::future_status::ready);
  CHECK(call.get().status().code() == absl::StatusCode::kCancelled);
}

TEST_CASE("the last handle may go in a callback") {
  Place place;
  auto server = place.Open();
  for (int i = 0; i < 50; ++i) {
    auto channel = std::make_unique<Channel>(place.transport, place.endpoint, Impatient());
    std::optional<Probe::Client> client(*channel);
    std::promise<void> gone;
    Builder<Ask> request = Asking(*client, "bye");
    client->AsyncDo(std::move(request), {}, [&](const absl::StatusOr<Msg<Answer>>& reply) {
      CHECK(reply.ok());
      client.reset();
      channel.reset();
      gone.set_value();
    });
    REQUIRE(gone.get_future().wait_for(seconds(20)) == std::future_status::ready);
  }
}

TEST_CASE("more calls at once than the server serves wait their turn") {
  Place place;
  auto server = place.Open({.limits = {.max_calls_in_flight = 4}});
  Channel channel(place.transport, place.endpoint, Impatient());
  Probe::Client client(channel);
  AskT ask;
  ask.number = 5;
  std::vector<std::future<absl::StatusOr<Msg<Answer>>>> calls;
  for (int i = 0; i < 40; ++i) calls.push_back(client.AsyncWait(ask, {}, asio::use_future));
  for (auto& call : calls) {
    REQUIRE(call.wait_for(seconds(20)) == std::future_status::ready);
    CHECK(call.get().ok());
  }
  CHECK(server->stats().calls_refused == 0);
}

TEST_CASE("the queue of waiting calls is bounded") {
  Place place;
  auto server = place.Open({.limits = {.max_calls_in_flight = 1}});
  ChannelOptions options = Impatient();
  options.max_waiting_calls = 2;
  Channel channel(place.transport, place.endpoint, options);
  Probe::Client client(channel);
  REQUIRE(client.Do(Asking(client, "connected")).ok());
  AskT ask;
  ask.number = 100;
  std::vector<std::future<absl::StatusOr<Msg<Answer>>>> calls;
  for (int i = 0; i < 4; ++i) calls.push_back(client.AsyncWait(ask, {}, asio::use_future));
  int refused = 0;
  for (auto& call : calls) {
    REQUIRE(call.wait_for(seconds(20)) == std::future_status::ready);
    const absl::Status status = call.get().status();
    if (!status.ok()) {
      CHECK(status.code() == absl::StatusCode::kResourceExhausted);
      CHECK(OutcomeOf(status) == Outcome::kNotSent);
      ++refused;
    }
  }
  CHECK(refused == 1);
}

TEST_CASE("oversize requests and replies name the limit, and the connection goes on") {
  Place place;
  auto server = place.Open({.limits = {.max_body_bytes = 10'000}});
  ChannelOptions options = Impatient();
  options.limits.max_body_bytes = 20'000;
  Channel channel(place.transport, place.endpoint, options);
  Probe::Client client(channel);
  auto large = client.Do(Asking(client, "", 0, 10'001));
  CHECK(large.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(large.status().message()).find("max_body_bytes") != std::string::npos);
  CHECK(OutcomeOf(large.status()) == Outcome::kNotSent);
  auto reply = client.Do(Asking(client, "big", 20'001));
  CHECK(reply.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(reply.status().message()).find("max_body_bytes") != std::string::npos);
  CHECK(OutcomeOf(reply.status()) == Outcome::kAnswered);
  CHECK(client.Do(Asking(client, "fine", 0, 5000)).ok());
  CHECK(channel.info().stats.connects == 1);
}

TEST_CASE("eight threads in blocking calls beside coroutines on one channel all progress") {
  Place place;
  auto server = place.Open();
  Channel channel(place.transport, place.endpoint, Impatient());
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      Probe::Client client(channel);
      for (int i = 0; i < 200; ++i) {
        if (client.Do(Asking(client, "t")).ok()) ++done;
      }
    });
  }
  Probe::Client client(channel);
  std::vector<std::future<absl::StatusOr<Msg<Answer>>>> calls;
  AskT ask;
  for (int i = 0; i < 400; ++i) calls.push_back(client.AsyncWait(ask, {}, asio::use_future));
  for (auto& thread : threads) thread.join();
  CHECK(done == 8 * 200);
  for (auto& call : calls) {
    REQUIRE(call.wait_for(seconds(20)) == std::future_status::ready);
    CHECK(call.get().ok());
  }
}

TEST_CASE("a lone caller's call runs on its own thread in steady state") {
  Place place;
  auto server = place.Open();
  Channel channel(place.transport, place.endpoint, Impatient());
  Probe::Client client(channel);
  // The reply's memory goes through OnDone on the driver: a callback that the same loop runs says
  // who drives.
  for (int i = 0; i < 200; ++i) REQUIRE(client.Do(Asking(client, "warm")).ok());
  int own = 0;
  for (int i = 0; i < 200; ++i) {
    class WhoDrives final : public BlockingTask {
     public:
      void Run() override {
        by = std::this_thread::get_id();
        Finish();
      }
      std::thread::id by;
    } who;
    REQUIRE(client.Do(Asking(client, "call")).ok());
    REQUIRE(channel.loop().RunBlocking(who).ok());
    if (who.by == std::this_thread::get_id()) ++own;
  }
  CHECK(own >= 190);  // the helper may take over when this thread was off its core for long
}

}  // namespace
}  // namespace farcall::testing
