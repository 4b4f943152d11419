// Better paths beside a channel's connection, with a server and paths that are played by hand: what
// is asked and tried, what calls go by, and what is told.

#include "farcall/rpc/channel_paths.h"

#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farcall/rpc/log.h"
#include "farcall/tests/rpc/scripted_server.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;

// An offer's value is the name where it is reached, or what is wrong with it after a '!'.
class NamedPaths final : public PathSelector {
 public:
  NamedPaths(std::shared_ptr<Transport> transport, std::vector<std::string> names)
      : transport_(std::move(transport)), names_(std::move(names)) {}

  std::vector<PathCandidate> Select(const std::vector<PathOffer>& offers) override {
    std::vector<PathCandidate> all;
    for (const std::string& name : names_) {
      PathCandidate candidate;
      candidate.name = name;
      candidate.unusable = absl::UnavailableError("the peer offers none");
      for (const PathOffer& offer : offers) {
        if (offer.name == name) Take(offer.value, candidate);
      }
      all.push_back(std::move(candidate));
    }
    return all;
  }

 private:
  void Take(const std::string& value, PathCandidate& candidate) {
    if (value.front() == '!') {
      candidate.unusable = absl::UnavailableError(value.substr(1));
      return;
    }
    candidate.unusable = absl::OkStatus();
    candidate.transport = transport_;
    candidate.endpoint = *ParseEndpoint("loopback://" + value);
    candidate.token = "token of " + value;
  }

  const std::shared_ptr<Transport> transport_;
  const std::vector<std::string> names_;
};

class WithPaths final : public Transport {
 public:
  WithPaths(std::shared_ptr<Transport> inner, std::vector<std::string> names)
      : inner_(std::move(inner)), names_(std::move(names)) {}
  std::unique_ptr<PendingConnect> Connect(EventLoop& loop, const Endpoint& endpoint,
                                          TimePoint deadline, ConnectDone done) override {
    return inner_->Connect(loop, endpoint, deadline, std::move(done));
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint,
                                                   std::vector<EventLoop*> loops,
                                                   Acceptor acceptor) override {
    return inner_->Listen(endpoint, std::move(loops), std::move(acceptor));
  }
  std::unique_ptr<PathSelector> MakePathSelector() override {
    return std::make_unique<NamedPaths>(inner_, names_);
  }

 private:
  const std::shared_ptr<Transport> inner_;
  const std::vector<std::string> names_;
};

ChannelOptions Options() {
  ChannelOptions options;
  options.backoff = {.first = milliseconds(10), .max = milliseconds(10), .jitter = 0};
  options.keepalive.ping_after = std::chrono::hours(1);
  options.paths = {
      .offer_timeout = seconds(3),
      .attach_timeout = seconds(1),
      .probe_timeout = seconds(2),
      .cool_down = {.first = seconds(10), .max = seconds(60), .factor = 2, .jitter = 0}};
  return options;
}

struct PathsWorld : ClientWorld {
  explicit PathsWorld(std::vector<std::string> names = {"best"}) : ClientWorld(Options()) {
    transport = std::make_shared<WithPaths>(transport, std::move(names));
    best = OpenPath("best");
    good = OpenPath("good");
  }
  ~PathsWorld() {
    client.reset();
    channel.reset();
    Settle();
    paths.clear();
    OnLoop([this] {
      best.reset();
      good.reset();
    });
  }

  std::unique_ptr<Listener> OpenPath(const std::string& name) {
    auto opened =
        transport->Listen(*ParseEndpoint("loopback://" + name), {loop.get()},
                          [this](EventLoop& /*loop*/, std::unique_ptr<Connection> connection) {
                            paths.push_back(std::make_unique<Peer>(*this, std::move(connection)));
                          });
    REQUIRE(opened.ok());
    return *std::move(opened);
  }

  // The channel is ready, and has asked for offers.
  std::unique_ptr<Peer> Asking() {
    auto main = Ready(Offering());
    CHECK(main->Next(FrameType::kOffers).message.head.size() == kFrameHeaderBytes);
    return main;
  }
  static Hello Offering() {
    Hello hello = Peer::UsualHello();
    hello.features = kFeatureOffers;
    return hello;
  }
  void Offer(Peer& main, const std::vector<PathOffer>& offers) {
    std::vector<Field> fields;
    for (const PathOffer& offer : offers) {
      fields.push_back({FieldKind::kOffer, offer.name, offer.value});
    }
    main.Say({.type = FrameType::kOffers}, fields);
    Settle();
  }
  // The next connection by a path, which has said HELLO.
  std::unique_ptr<Peer> Attached(const std::string& name) {
    REQUIRE_FALSE(paths.empty());
    auto path = std::move(paths.front());
    paths.pop_front();
    const Heard hello = path->Next(FrameType::kHello);
    CHECK(DecodeHello(hello.header, hello.message.head.bytes())->token == "token of " + name);
    return path;
  }
  void SendBack(Peer& path, size_t bytes) {
    Heard probe = path.Next(FrameType::kProbe);
    CHECK(probe.message.body.size() == bytes);
    path.Say({.type = FrameType::kProbe}, {}, std::move(probe.message.body));
    Settle();
  }
  // It is in use when this returns.
  std::unique_ptr<Peer> Upgraded(const std::string& name) {
    auto path = Attached(name);
    path->SayHello();
    Settle();
    SendBack(*path, 64);
    CHECK(report().in_use != name);
    SendBack(*path, 256 << 10);
    CHECK(report().in_use == name);
    return path;
  }
  PathReport report() { return info().paths; }
  std::string why(size_t rank) { return report().better.at(rank).reason; }

  std::deque<std::unique_ptr<Peer>> paths;  // connections by them, not taken yet
  std::unique_ptr<Listener> best, good;
};

// `peer` answers the call that it got next.
void Answer(PathsWorld& world, Peer& peer, const std::shared_ptr<Asked>& asked) {
  const Heard request = peer.Next(FrameType::kRequest);
  peer.Say(ReplyTo(request), {}, AnswerBody(world, "answered"));
  world.Settle();
  CHECK(asked->ended == 1);
  CHECK(asked->status.ok());
}

TEST_CASE("a path carries calls once it was attached and probed; none waits for that") {
  PathsWorld world;
  auto main = world.Asking();
  CHECK(world.report().in_use == "loopback");
  CHECK(world.why(0) == "not tried yet");
  CHECK(world.report().looking);
  const auto early = world.Ask("early");
  world.Settle();
  const Heard early_request = main->Next(FrameType::kRequest);
  world.Offer(*main, {{"best", "best"}});
  const auto between = world.Ask("between");
  world.Settle();
  Answer(world, *main, between);

  auto path = world.Upgraded("best");
  const PathReport report = world.report();
  CHECK(report.changes == 1);
  CHECK(report.better.empty());
  CHECK(!report.looking);
  const auto later = world.Ask("later");
  world.Settle();
  CHECK(main->silent());
  Answer(world, *path, later);
  // A call never changes its path.
  main->Say(ReplyTo(early_request), {}, AnswerBody(world, "late"));
  world.Settle();
  CHECK(early->status.ok());
  world.Pass(seconds(3));
  CHECK(world.report().age == seconds(3));
  CHECK_THAT(Dump(world.channel->metrics()), Contains("path  in_use=best"));
}

TEST_CASE("a server that offers no paths is not asked") {
  PathsWorld world;
  auto main = world.Ready();
  world.Pass(std::chrono::minutes(10));
  CHECK(main->silent());
  CHECK_THAT(world.why(0), Contains("the peer offers no other paths"));
  CHECK(world.report().in_use == "loopback");
}

TEST_CASE("what cannot be tried is told, and looked at again after the longest pause") {
  PathsWorld world({"best", "good"});
  auto main = world.Asking();
  world.Offer(*main, {{"best", "!no device"}});
  CHECK(world.why(0) == "no device");
  CHECK(world.why(1) == "the peer offers none");
  world.Pass(seconds(59));
  CHECK(main->silent());
  world.Pass(seconds(2));
  main->Next(FrameType::kOffers);
  world.Offer(*main, {{"best", "best"}});
  world.Upgraded("best");
}

TEST_CASE("an attempt that fails at any stage is told, and made again after growing pauses") {
  PathsWorld world;
  auto main = world.Asking();
  const auto again = [&](Duration pause) {
    world.Pass(pause - milliseconds(100));
    CHECK(main->silent());
    world.Pass(milliseconds(200));
    main->Next(FrameType::kOffers);
  };
  world.Offer(*main, {{"best", "nowhere"}});
  CHECK_THAT(world.why(0), StartsWith("cooling down for 10 s: attach failed: loopback://nowhere"));
  again(seconds(10));

  world.Offer(*main, {{"best", "best"}});
  auto path = world.Attached("best");
  path->Say({.type = FrameType::kGoAway, .status = 7},
            {{FieldKind::kStatusMessage, "", "an old token"}});
  world.Settle();
  CHECK_THAT(world.why(0), Contains("attach failed") && Contains("an old token"));
  again(seconds(20));

  world.Offer(*main, {{"best", "best"}});
  path = world.Attached("best");
  world.Pass(milliseconds(1100));
  CHECK_THAT(world.why(0), Contains("attach failed: no HELLO within 1 s"));
  CHECK(path->closed());
  again(seconds(40));

  world.Offer(*main, {{"best", "best"}});
  path = world.Attached("best");
  path->SayHello();
  world.Settle();
  const size_t bytes = path->Next(FrameType::kProbe).message.body.size();
  path->Say({.type = FrameType::kProbe}, {}, Garbage(world, bytes));
  world.Settle();
  CHECK_THAT(world.why(0), Contains("probe failed") && Contains("64 bytes"));
  again(seconds(60));  // the longest

  world.Offer(*main, {{"best", "best"}});
  path = world.Attached("best");
  path->SayHello();
  world.Settle();
  world.SendBack(*path, 64);
  world.Pass(milliseconds(2100));
  CHECK_THAT(world.why(0), Contains("probe failed: 262144 bytes did not come back within 2 s"));
  CHECK(path->closed());
  again(seconds(60));

  world.Pass(milliseconds(3100));
  CHECK_THAT(world.why(0), Contains("the peer did not say what it offers within 3 s"));
  CHECK(world.report().changes == 0);
}

TEST_CASE("while the second best is in use the best is tried again") {
  PathsWorld world({"best", "good"});
  auto main = world.Asking();
  world.Offer(*main, {{"best", "nowhere"}, {"good", "good"}});
  auto good = world.Upgraded("good");
  REQUIRE(world.report().better.size() == 1);
  CHECK_THAT(world.why(0), Contains("attach failed"));
  const auto asked = world.Ask("on the good one", {.timeout = seconds(60)});
  world.Settle();

  world.Pass(milliseconds(10'100));
  main->Next(FrameType::kOffers);
  world.Offer(*main, {{"best", "best"}, {"good", "good"}});
  auto best = world.Upgraded("best");
  CHECK(world.paths.empty());  // the good one was not attached anew
  CHECK(!good->closed());      // it has a call yet
  Answer(world, *good, asked);
  CHECK(good->closed());
  CHECK(world.report().changes == 2);
}

TEST_CASE("when the best is lost the second best is looked for at once") {
  PathsWorld world({"best", "good"});
  auto main = world.Asking();
  world.Offer(*main, {{"best", "best"}, {"good", "good"}});
  auto best = world.Upgraded("best");
  best->Close();
  world.Settle();
  CHECK(world.report().in_use == "loopback");
  main->Next(FrameType::kOffers);
  world.Offer(*main, {{"best", "best"}, {"good", "good"}});
  auto good = world.Upgraded("good");
  CHECK(world.paths.empty());  // the best cools down
  CHECK(world.report().changes == 3);
}

TEST_CASE("a path that is lost: its sent calls are unknown, new ones go by the first connection") {
  PathsWorld world;
  auto main = world.Asking();
  world.Offer(*main, {{"best", "best"}});
  auto path = world.Upgraded("best");
  const auto sent = world.Ask("sent");
  world.Settle();
  path->Next(FrameType::kRequest);
  path->CloseLater();
  const auto moved = world.Ask("moved");
  world.Settle();
  CheckEnded(*sent, absl::StatusCode::kUnavailable, Outcome::kUnknown);
  // Whether it had left is the transport's to say; it is not lost.
  if (moved->ended == 0) Answer(world, *main, moved);
  CHECK(moved->ended == 1);
  const auto after = world.Ask("after");
  world.Settle();
  Answer(world, *main, after);
  CHECK(world.report().in_use == "loopback");
  CHECK(world.report().changes == 2);
  CHECK_THAT(world.why(0), StartsWith("cooling down for 10 s: "));

  world.Pass(milliseconds(10'100));
  main->Next(FrameType::kOffers);
  world.Offer(*main, {{"best", "best"}});
  path = world.Upgraded("best");
  // It did not last: the next pause is longer.
  path->Close();
  world.Settle();
  CHECK_THAT(world.why(0), StartsWith("cooling down for 20 s: "));
}

TEST_CASE("calls that wait for a place on a path that is lost are not lost") {
  PathsWorld world;
  auto main = world.Asking();
  world.Offer(*main, {{"best", "best"}});
  auto path = world.Attached("best");
  Hello narrow = Peer::UsualHello();
  narrow.max_calls_in_flight = 1;
  path->SayHello(narrow);
  world.Settle();
  world.SendBack(*path, 64);
  world.SendBack(*path, 256 << 10);
  const auto sent = world.Ask("sent");
  const auto waits = world.Ask("waits");
  world.Settle();
  path->Close();
  world.Settle();
  CheckEnded(*sent, absl::StatusCode::kUnavailable, Outcome::kUnknown);
  Answer(world, *main, waits);
}

TEST_CASE("the first connection takes its paths along, and the next one finds them anew") {
  PathsWorld world;
  auto main = world.Asking();
  world.Offer(*main, {{"best", "best"}});
  auto path = world.Upgraded("best");
  const auto sent = world.Ask("sent");
  world.Settle();
  main->Close();
  world.Settle();
  CHECK(path->closed());
  CheckEnded(*sent, absl::StatusCode::kUnavailable, Outcome::kUnknown, "beside it ended");
  CHECK(world.report().in_use.empty());
  world.Pass(milliseconds(20));
  auto next = world.Asking();
  world.Offer(*next, {{"best", "best"}});
  world.Upgraded("best");
}

TEST_CASE("a server that drains: the calls of the path end first, and both connections then") {
  PathsWorld world;
  auto main = world.Asking();
  world.Offer(*main, {{"best", "best"}});
  auto path = world.Upgraded("best");
  const auto asked = world.Ask("slow");
  world.Settle();
  const bool main_first = GENERATE(true, false);
  Peer& first = main_first ? *main : *path;
  Peer& second = main_first ? *path : *main;
  first.Say({.type = FrameType::kGoAway});
  world.Settle();
  second.Say({.type = FrameType::kGoAway});
  world.Settle();
  CHECK(!main->closed());
  CHECK(!path->closed());
  Answer(world, *path, asked);
  CHECK(path->closed());
  CHECK(main->closed());
}

TEST_CASE("a path that alone drains: new calls go by the first connection") {
  PathsWorld world;
  auto main = world.Asking();
  world.Offer(*main, {{"best", "best"}});
  auto path = world.Upgraded("best");
  const auto slow = world.Ask("slow");
  world.Settle();
  path->Say({.type = FrameType::kGoAway});
  world.Settle();
  const auto next = world.Ask("next");
  world.Settle();
  Answer(world, *main, next);
  CHECK_THAT(world.why(0), Contains("drains"));
  Answer(world, *path, slow);
  CHECK(path->closed());
  CHECK(!main->closed());
}

TEST_CASE("a channel that ends at any stage of an attempt leaves nothing") {
  PathsWorld world;
  auto main = world.Asking();
  const int stage = GENERATE(range(0, 6));
  INFO("stage " << stage);
  std::unique_ptr<Peer> path;
  if (stage == 1) {
    main->Say({.type = FrameType::kOffers}, {{FieldKind::kOffer, "best", "best"}});
    world.Turn();  // it may be connecting
  }
  if (stage >= 2) {
    world.Offer(*main, {{"best", "best"}});
    path = world.Attached("best");
  }
  if (stage >= 3) {
    path->SayHello();
    world.Settle();
  }
  if (stage >= 4) world.SendBack(*path, 64);
  if (stage >= 5) world.SendBack(*path, 256 << 10);
  const auto asked = world.Ask("under way");
  world.Settle();
  world.client.reset();
  world.channel.reset();
  world.Settle();
  CHECK(asked->ended == 1);
  CHECK(main->closed());
  if (path != nullptr) CHECK(path->closed());
}

TEST_CASE("OFFERS and PROBE that nobody asked for break the rules") {
  PathsWorld world;
  auto main = world.Asking();
  SECTION("a second answer") {
    world.Offer(*main, {});
    world.Offer(*main, {});
    CHECK_THAT(std::string(main->Next(FrameType::kGoAway).status.message()),
               Contains("nobody asked for"));
  }
  SECTION("a probe") {
    main->Say({.type = FrameType::kProbe}, {}, Garbage(world, 10));
    world.Settle();
    CHECK_THAT(std::string(main->Next(FrameType::kGoAway).status.message()),
               Contains("a PROBE that answers none"));
  }
  SECTION("a probe that is larger than any") {
    main->Say({.type = FrameType::kProbe}, {}, Garbage(world, kMaxProbeBytes + 1));
    world.Settle();
    CHECK_THAT(std::string(main->Next(FrameType::kGoAway).status.message()),
               Contains("the limit is 1048576"));
  }
  CHECK(main->closed());
}

TEST_CASE("one line tells of each change, and none has the token") {
  std::vector<std::string> lines;
  SetLogSink([&](LogLevel level, std::string_view line) {
    lines.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(line));
  });
  {
    PathsWorld world;
    auto main = world.Asking();
    world.Offer(*main, {{"best", "best"}});
    lines.clear();
    auto path = world.Upgraded("best");
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], StartsWith("1 ") && Contains("go by best now, no longer by loopback"));
    lines.clear();
    path->Close();
    world.Settle();
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], StartsWith("2 ") && Contains("lost best") && Contains("go by loopback"));
  }
  SetLogSink({});
  for (const std::string& line : lines) CHECK_THAT(line, !Contains("token"));
}

}  // namespace
}  // namespace farcall::testing
