// Deadlines and cancellation at every stage of a call: it ends once, in time, and tells the truth
// about whether it ran.

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/rpc/scripted.h"
#include "farcall/tests/rpc/scripted_server.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTimeout = seconds(2);  // less than any keepalive's
constexpr char kTarget[] = "target";

// The call that a test is about, brought to some stage, and what is around it.
struct Scene {
  explicit Scene(ChannelOptions options = {}) : world(std::move(options)) {}

  void AskTarget(size_t data_bytes = 0) {
    target = world.Ask(kTarget, {.timeout = kTimeout, .wait_for_ready = true}, data_bytes);
  }
  void AskOthers(int count, size_t data_bytes) {
    for (int i = 0; i < count; ++i) {
      others.push_back(world.Ask("other", {.timeout = std::chrono::hours(1)}, data_bytes));
    }
    world.Settle();
  }
  void CloseChannel() {
    world.client.reset();
    world.channel.reset();
    world.Settle();
  }

  ClientWorld world;
  std::unique_ptr<Peer> peer;  // absent where there is no connection
  std::shared_ptr<Asked> target;
  std::vector<std::shared_ptr<Asked>> others;
};

struct Stage {
  const char* name;
  Outcome outcome;    // of a call that ends in this stage
  const char* where;  // what its status says of the stage
  std::function<void(Scene&)> reach;
};

Heard TargetIn(Peer& peer) {
  while (true) {
    Heard heard = peer.Next(FrameType::kRequest);
    const auto* ask = flatbuffers::GetRoot<Ask>(heard.message.body.data());
    if (ask->action()->str() == kTarget) return heard;
  }
}

const std::vector<Stage>& Stages() {
  static const std::vector<Stage> stages = {
      {"waiting for a server to come", Outcome::kNotSent, "while connecting",
       [](Scene& scene) {
         scene.world.Shut();
         scene.world.Dial();
         scene.AskTarget();
       }},
      {"waiting for HELLO", Outcome::kNotSent, "connected but had sent no HELLO",
       [](Scene& scene) {
         scene.world.Dial();
         scene.peer = scene.world.Accept();
         scene.AskTarget();
       }},
      {"waiting for a place among the calls", Outcome::kNotSent, "was busy with",
       [](Scene& scene) {
         Hello narrow = Peer::UsualHello();
         narrow.max_calls_in_flight = 1;
         scene.peer = scene.world.Ready(narrow);
         scene.AskOthers(2, 0);
         scene.AskTarget();
       }},
      {"in the send queue", Outcome::kNotSent, "while it was sent to",
       [](Scene& scene) {
         scene.world.listens = false;
         scene.peer = scene.world.Ready();
         scene.AskOthers(20, 60'000);
         scene.AskTarget(60'000);
       }},
      {"its payload half sent", Outcome::kUnknown, "while it was sent to",
       [](Scene& scene) {
         scene.world.listens = false;
         scene.peer = scene.world.Ready();
         scene.AskTarget(1 << 20);
       }},
      {"waiting for the reply", Outcome::kUnknown, "before the reply of",
       [](Scene& scene) {
         scene.peer = scene.world.Ready();
         scene.AskTarget();
       }},
      {"the reply's payload half here", Outcome::kUnknown, "while the reply came from",
       [](Scene& scene) {
         scene.peer = scene.world.Ready();
         scene.AskTarget();
         scene.world.Settle();
         scene.peer->Say(ReplyTo(TargetIn(*scene.peer)), {}, AnswerBody(scene.world, "", 10 << 20));
         for (int i = 0; i < 5; ++i) scene.world.Turn();
       }},
  };
  return stages;
}

bool HalfWay(const Stage& stage) {
  return std::string(stage.name) == "the reply's payload half here";
}

// What must hold after the target ended: nothing more happens to it, "not sent" was true, and
// whatever else is under way ends once, too.
void CheckAfterwards(Scene& scene) {
  scene.world.Settle();
  CHECK(scene.target->ended == 1);
  scene.target->cancel.emit(asio::cancellation_type::terminal);  // too late
  if (scene.peer != nullptr && !scene.world.listens) {
    scene.peer->Listen();
    scene.world.Settle();
    bool seen = false;
    while (!scene.peer->silent()) {
      const Heard heard = scene.peer->Next();
      if (heard.header.type != FrameType::kRequest) continue;
      const auto* ask = flatbuffers::GetRoot<Ask>(heard.message.body.data());
      seen = seen || ask->action()->str() == kTarget;
    }
    CHECK_FALSE((seen && scene.target->info.outcome == Outcome::kNotSent));
  }
  scene.CloseChannel();
  CHECK(scene.target->ended == 1);
  for (const auto& other : scene.others) CHECK(other->ended == 1);
}

TEST_CASE("a deadline ends the call at every stage, in time and not before") {
  for (const Stage& stage : Stages()) {
    CAPTURE(stage.name);
    Scene scene;
    stage.reach(scene);
    if (HalfWay(stage)) {
      scene.world.clock.Advance(kTimeout + milliseconds(2));
      scene.world.Turn();
    } else {
      scene.world.Settle();
      scene.world.Pass(kTimeout - milliseconds(2));
      CHECK(scene.target->ended == 0);
      scene.world.Pass(milliseconds(4));
    }
    scene.world.Settle();
    CheckEnded(*scene.target, absl::StatusCode::kDeadlineExceeded, stage.outcome,
               "farcall.testing.Probe/Do");
    CheckEnded(*scene.target, absl::StatusCode::kDeadlineExceeded, stage.outcome,
               "loopback://world");
    CheckEnded(*scene.target, absl::StatusCode::kDeadlineExceeded, stage.outcome, stage.where);
    CheckAfterwards(scene);
  }
}

TEST_CASE("a cancellation ends the call at every stage") {
  for (const Stage& stage : Stages()) {
    CAPTURE(stage.name);
    Scene scene;
    stage.reach(scene);
    if (!HalfWay(stage)) scene.world.Settle();
    CHECK(scene.target->ended == 0);
    scene.target->cancel.emit(asio::cancellation_type::terminal);
    scene.target->cancel.emit(asio::cancellation_type::terminal);
    CHECK(scene.target->ended == 0);  // never inside
    scene.world.Settle();
    CheckEnded(*scene.target, absl::StatusCode::kCancelled, stage.outcome);
    CheckAfterwards(scene);
  }
}

TEST_CASE("a channel that closes ends the call at every stage") {
  for (const Stage& stage : Stages()) {
    CAPTURE(stage.name);
    Scene scene;
    stage.reach(scene);
    if (!HalfWay(stage)) scene.world.Settle();
    scene.CloseChannel();
    CheckEnded(*scene.target, absl::StatusCode::kCancelled, stage.outcome, "closed");
    CheckAfterwards(scene);
  }
}

TEST_CASE("deadline, cancellation and the channel's end in one turn end the call once") {
  for (const Stage& stage : Stages()) {
    CAPTURE(stage.name);
    Scene scene;
    stage.reach(scene);
    if (!HalfWay(stage)) scene.world.Settle();
    scene.target->cancel.emit(asio::cancellation_type::terminal);
    scene.world.clock.Advance(kTimeout + milliseconds(2));
    scene.CloseChannel();
    CHECK(scene.target->ended == 1);
    CHECK(static_cast<int>(scene.target->info.outcome) == static_cast<int>(stage.outcome));
    CheckAfterwards(scene);
  }
}

TEST_CASE("a call whose connection goes after its deadline ends once, by the deadline") {
  for (const Stage& stage : Stages()) {
    CAPTURE(stage.name);
    Scene scene;
    stage.reach(scene);
    if (scene.peer == nullptr) continue;
    if (!HalfWay(stage)) scene.world.Settle();
    scene.peer->Close();
    scene.world.clock.Advance(kTimeout + milliseconds(2));
    scene.world.Settle();
    CHECK(scene.target->ended == 1);
    CHECK_FALSE(
        (scene.target->info.outcome == Outcome::kNotSent && stage.outcome == Outcome::kUnknown));
    scene.peer.reset();
    CheckAfterwards(scene);
  }
}

TEST_CASE("the server is told by CANCEL, and a reply that comes later is dropped") {
  ClientWorld world;
  const auto peer = world.Ready();
  for (const bool cancels : {true, false}) {
    const auto asked = world.Ask("x", {.timeout = kTimeout});
    world.Settle();
    const Heard request = peer->Next(FrameType::kRequest);
    if (cancels) asked->cancel.emit(asio::cancellation_type::terminal);
    world.Pass(cancels ? milliseconds(0) : kTimeout + milliseconds(2));
    CHECK(asked->ended == 1);
    CHECK(peer->Next(FrameType::kCancel).header.call == request.header.call);
    CHECK(peer->silent());
    const uint64_t late = world.stats().late_replies;
    peer->Say(ReplyTo(request), {}, AnswerBody(world, "", 200'000));
    world.Settle();
    CHECK(world.stats().late_replies == late + 1);
    CHECK(asked->ended == 1);
  }
}

TEST_CASE("a reply that comes in the turn of the deadline: one of the two") {
  ClientWorld world;
  const auto peer = world.Ready();
  for (const size_t bytes : {0, 100'000}) {
    const auto asked = world.Ask("x", {.timeout = kTimeout});
    world.Settle();
    peer->Say(ReplyTo(peer->Next(FrameType::kRequest)), {}, AnswerBody(world, "", bytes));
    world.Pass(kTimeout + milliseconds(2));
    CHECK(asked->ended == 1);
    CHECK((asked->status.ok() || absl::IsDeadlineExceeded(asked->status)));
    peer->Forget();
  }
}

TEST_CASE("a cancellation before the first turn: not sent") {
  ClientWorld world;
  const auto peer = world.Ready();
  const auto asked = world.Ask("x");
  asked->cancel.emit(asio::cancellation_type::terminal);
  world.Settle();
  CheckEnded(*asked, absl::StatusCode::kCancelled, Outcome::kNotSent);
  CHECK(peer->silent());
}

TEST_CASE("a deadline that has passed before the start: not sent") {
  ClientWorld world;
  const auto peer = world.Ready();
  const auto negative = world.Ask("x", {.timeout = -seconds(1)});
  world.Settle();
  CheckEnded(*negative, absl::StatusCode::kDeadlineExceeded, Outcome::kNotSent);
  const auto late = world.Ask("x", {.timeout = milliseconds(1)});
  world.Pass(milliseconds(5));  // before anybody drove the loop
  CheckEnded(*late, absl::StatusCode::kDeadlineExceeded, Outcome::kNotSent);
  CHECK(peer->silent());
}

TEST_CASE("every call has a deadline: its own, the channel's, or at most a year") {
  ClientWorld world({.default_timeout = milliseconds(123)});
  const auto peer = world.Ready();
  std::vector<std::shared_ptr<Asked>> calls;
  const auto told = [&](Duration timeout) {
    calls.push_back(world.Ask("x", {.timeout = timeout}));
    world.Settle();
    return peer->Next(FrameType::kRequest).header.timeout_ns;
  };
  CHECK(told(Duration(0)) == 123'000'000);
  CHECK(told(Duration(1)) == 1);
  CHECK(told(Duration::max()) <= uint64_t{366} * 24 * 3600 * 1'000'000'000);
  CHECK(told(Duration::max()) > uint64_t{300} * 24 * 3600 * 1'000'000'000);
}

// ---- anything, in any order ----

// A channel and its servers at random. Every call ends once; what it says of its outcome is true.
class Chaos {
 public:
  explicit Chaos(uint32_t seed)
      : random_(seed), world_({.backoff = {.first = milliseconds(5), .max = milliseconds(50)}}) {
    world_.Dial();
  }

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) Step();
    world_.client.reset();
    world_.channel.reset();
    world_.Settle();
    Listen();
    for (const auto& [name, asked] : calls_) {
      CAPTURE(name);
      REQUIRE(asked->ended == 1);
      if (asked->status.ok()) CHECK(answered_.count(name) == 1);
      if (asked->info.outcome == Outcome::kNotSent) CHECK(heard_.count(name) == 0);
      if (asked->info.outcome == Outcome::kNotRun) CHECK(refused_.count(name) == 1);
    }
    peers_.clear();
  }

 private:
  size_t Below(size_t bound) { return static_cast<size_t>(random_()) % bound; }

  void Step() {
    switch (Below(10)) {
      case 0:
      case 1:
      case 2:
        if (Below(2) == 0) {
          AskSomething();
        } else {
          world_.OnLoop([this] { AskSomething(); });
        }
        break;
      case 3:
        if (!calls_.empty()) {
          std::next(calls_.begin(), static_cast<long>(Below(calls_.size())))
              ->second->cancel.emit(asio::cancellation_type::terminal);
        }
        break;
      case 4:
        world_.clock.Advance(milliseconds(Below(30)));
        break;
      case 5:
      case 6:
        AnswerSomething();
        break;
      case 7:
        if (Below(4) == 0 && !peers_.empty()) {
          Peer& peer = *peers_[Below(peers_.size())];
          if (Below(2) == 0) {
            peer.Say({.type = FrameType::kGoAway});
          } else {
            peer.Close();
          }
        }
        break;
      default:
        break;
    }
    for (size_t turns = Below(4); turns > 0; --turns) world_.Turn();
    if (Below(4) == 0) world_.Settle();
    while (!world_.accepted.empty()) {
      peers_.push_back(world_.Accept());
      Hello hello = Peer::UsualHello();
      hello.max_calls_in_flight = static_cast<uint32_t>(1 + Below(5));
      peers_.back()->SayHello(hello);
    }
    Listen();
  }

  void AskSomething() {
    static constexpr size_t kSizes[] = {0, 1000, 60'000, 200'000, 1'000'000};
    if (!world_.client) return;  // in a callback of the channel's end
    const std::string name = "call " + std::to_string(calls_.size());
    calls_[name] =
        world_.Ask(name, {.timeout = milliseconds(1 + Below(100)), .wait_for_ready = Below(2) == 0},
                   kSizes[Below(5)]);
    if (Below(3) == 0) calls_[name]->then = [this] { AskSomething(); };
  }

  void AnswerSomething() {
    if (requests_.empty()) return;
    const size_t at = Below(requests_.size());
    const auto [peer, name, id] = requests_[at];
    requests_.erase(requests_.begin() + static_cast<ptrdiff_t>(at));
    FrameHeader reply{.type = FrameType::kReply, .call = id};
    if (Below(4) == 0) {
      reply.status = 14;
      reply.flags = kFlagNotRun;
      refused_.insert(name);
      peer->Say(reply);
      return;
    }
    answered_.insert(name);
    peer->Say(reply, {}, AnswerBody(world_, name, Below(2) == 0 ? 0 : 500'000));
  }

  void Listen() {
    for (const auto& peer : peers_) {
      while (!peer->silent()) {
        const Heard heard = peer->Next();
        if (heard.header.type != FrameType::kRequest) continue;
        const auto* ask = flatbuffers::GetRoot<Ask>(heard.message.body.data());
        const std::string name = ask->action()->str();
        CHECK(heard_.insert(name).second);  // no call runs twice
        requests_.push_back({peer.get(), name, heard.header.call});
      }
    }
  }

  struct Open {
    Peer* peer;
    std::string name;
    uint64_t id;
  };

  std::mt19937 random_;
  ClientWorld world_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::map<std::string, std::shared_ptr<Asked>> calls_;
  std::vector<Open> requests_;
  std::set<std::string> heard_, answered_, refused_;
};

TEST_CASE("calls beside servers that come, go and answer at random") {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Chaos(seed).Run(300);
  }
}

}  // namespace
}  // namespace farcall::testing
