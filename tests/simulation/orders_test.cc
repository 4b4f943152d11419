// Cancellation, deadline, reply, disconnect and destruction in every order, at every step of a
// call, with every choice of how much happens between two of them.

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "farcall/rpc/log.h"
#include "farcall/rpc/outcome.h"
#include "farcall/tests/rpc/scripted.h"
#include "farcall/tests/rpc/scripted_server.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTimeout = seconds(2);  // less than any keepalive's
constexpr char kTarget[] = "target";

// The call that it is about, at some step, and its server.
struct Scene {
  void AskTarget(size_t data_bytes = 0) {
    target = world.Ask(kTarget, {.timeout = kTimeout, .wait_for_ready = true}, data_bytes);
  }
  void AskOthers(int count, size_t data_bytes) {
    for (int i = 0; i < count; ++i) {
      others.push_back(world.Ask("other", {.timeout = std::chrono::hours(1)}, data_bytes));
    }
    world.Settle();
  }

  // Takes what the server heard; answers it when that is its mood.
  void Hear() {
    while (peer != nullptr && !peer->silent()) {
      const Heard heard = peer->Next();
      if (heard.header.type != FrameType::kRequest) continue;
      const auto* ask = flatbuffers::GetRoot<Ask>(heard.message.body.data());
      const bool about_target = ask->action()->str() == kTarget;
      target_heard = target_heard || about_target;
      requests.emplace_back(ReplyTo(heard), about_target);
    }
    if (!answers) return;
    for (const auto& [reply, about_target] : requests) {
      peer->Say(reply, {}, AnswerBody(world, about_target ? kTarget : "other", 0));
    }
    requests.clear();
  }
  void Turn() {
    world.Turn();
    Hear();
  }
  void Settle() {
    do {
      Hear();
    } while (world.loop->RunOnce() != 0);
  }

  ClientWorld world;
  std::unique_ptr<Peer> peer;  // absent where there is no connection
  std::shared_ptr<Asked> target;
  std::vector<std::shared_ptr<Asked>> others;
  std::vector<std::pair<FrameHeader, bool>> requests;  // not answered yet; whether the target's
  bool target_heard = false;
  bool answers = false;
};

enum class Event { kCancel, kDeadline, kReply, kDisconnect, kDestroy };
constexpr std::array kEvents = {Event::kCancel, Event::kDeadline, Event::kReply, Event::kDisconnect,
                                Event::kDestroy};
constexpr const char* kEventNames[] = {"cancel", "deadline", "reply", "disconnect", "destroy"};

struct Step {
  const char* name;
  std::set<Outcome> outcomes;  // of a call that is given up in this step
  bool reply_comes;            // once the server answers
  bool reply_is_coming;        // it has answered
  bool connection_counts;      // the call is lost with its connection
  void (*reach)(Scene& scene);
};

void NotOnTheLoopYet(Scene& scene) {
  scene.peer = scene.world.Ready();
  scene.AskTarget();
}

void BeforeTheConnection(Scene& scene) {
  scene.world.Shut();
  scene.world.Dial();
  scene.AskTarget();
  scene.Settle();
}

void BeforeHello(Scene& scene) {
  scene.world.Dial();
  scene.peer = scene.world.Accept();
  scene.AskTarget();
  scene.Settle();
}

void BehindTheLimit(Scene& scene) {
  Hello narrow = Peer::UsualHello();
  narrow.max_calls_in_flight = 1;
  scene.peer = scene.world.Ready(narrow);
  scene.AskOthers(2, 0);
  scene.AskTarget();
  scene.Settle();
}

void BehindAFullWire(Scene& scene) {
  scene.world.listens = false;
  scene.peer = scene.world.Ready();
  scene.AskOthers(20, 60'000);
  scene.AskTarget(60'000);
  scene.Settle();
}

void HalfSent(Scene& scene) {
  scene.world.listens = false;
  scene.peer = scene.world.Ready();
  scene.AskTarget(400'000);
  scene.Settle();
}

void AwaitingTheReply(Scene& scene) {
  scene.peer = scene.world.Ready();
  scene.AskTarget();
  scene.Settle();
}

void ReplyOnTheWay(Scene& scene) {
  AwaitingTheReply(scene);
  scene.peer->Say(scene.requests.at(0).first, {}, AnswerBody(scene.world, kTarget, 1 << 20));
  scene.requests.clear();
  for (int turns = 0; turns < 3; ++turns) scene.Turn();
}

void Happen(Event event, Scene& scene) {
  switch (event) {
    case Event::kCancel:
      scene.target->cancel.emit(asio::cancellation_type::terminal);
      break;
    case Event::kDeadline:
      scene.world.clock.Advance(kTimeout + milliseconds(2));
      break;
    case Event::kReply:
      scene.answers = scene.peer != nullptr;
      if (scene.answers && !scene.world.listens) scene.peer->Listen();
      scene.Hear();
      break;
    case Event::kDisconnect:
      if (scene.peer != nullptr) scene.peer->CloseLater();
      break;
    case Event::kDestroy:
      scene.world.client.reset();
      scene.world.channel.reset();
      break;
  }
}

using Ending = std::pair<absl::StatusCode, Outcome>;

bool Has(const std::vector<Event>& events, Event event) {
  return std::find(events.begin(), events.end(), event) != events.end();
}

bool GivesUp(const std::vector<Event>& events) {
  return Has(events, Event::kCancel) || Has(events, Event::kDeadline) ||
         Has(events, Event::kDestroy);
}

// How the call may end when `together` happen with no rest between, and it had not ended before.
std::set<Ending> Endings(const Step& step, const std::vector<Event>& together, bool connected) {
  const bool replies =
      connected && step.reply_comes && (step.reply_is_coming || Has(together, Event::kReply));
  std::set<Outcome> given_up = step.outcomes;
  if (replies) given_up.insert(Outcome::kUnknown);  // it may go ahead just before
  std::set<Ending> endings;
  for (const Outcome outcome : given_up) {
    if (Has(together, Event::kCancel) || Has(together, Event::kDestroy)) {
      endings.emplace(absl::StatusCode::kCancelled, outcome);
    }
    if (Has(together, Event::kDeadline)) {
      endings.emplace(absl::StatusCode::kDeadlineExceeded, outcome);
    }
  }
  if (replies) endings.emplace(absl::StatusCode::kOk, Outcome::kAnswered);
  if (connected && Has(together, Event::kDisconnect) && (step.connection_counts || replies)) {
    endings.emplace(absl::StatusCode::kUnavailable, Outcome::kUnknown);
  }
  return endings;
}

// Whether it must have ended then.
bool Ends(const Step& step, const std::vector<Event>& together, bool connected) {
  if (GivesUp(together)) return true;
  if (!connected) return false;
  if (Has(together, Event::kDisconnect)) return step.connection_counts;
  return step.reply_comes && (step.reply_is_coming || Has(together, Event::kReply));
}

// What lies between two events: nothing or another, for each of the gaps. A choice is a bit a gap.
enum class Gap { kNothing, kTurn, kRest };
constexpr unsigned kAllChoices = 1 << (kEvents.size() - 1);
#ifdef FARCALL_FEWER_SEEDS
constexpr Gap kOthers[] = {Gap::kRest};
constexpr unsigned kStride = 5;  // 0000, 0101, 1010, 1111
#else
constexpr Gap kOthers[] = {Gap::kRest, Gap::kTurn};
constexpr unsigned kStride = 1;
#endif
constexpr unsigned kChoices = (kAllChoices - 1) / kStride + 1;

struct Tally {
  std::map<Ending, int> endings;
  size_t scenes = 0;
};

std::string Describe(const Step& step, const std::vector<Event>& events,
                     const std::vector<Gap>& gaps) {
  std::string text = std::string(step.name) + ":";
  for (size_t i = 0; i < events.size(); ++i) {
    text += std::string(" ") + kEventNames[static_cast<int>(events[i])];
    if (i < gaps.size()) {
      constexpr const char* kBetween[] = {" and", ", a turn,", ";"};
      text += kBetween[static_cast<int>(gaps[i])];
    }
  }
  return text;
}

// All ways in which the call may end. A turn between two events is too short for the first to have
// its effect for sure.
std::set<Ending> Allowed(const Step& step, const std::vector<Event>& events,
                         const std::vector<Gap>& gaps) {
  std::set<Ending> allowed;
  std::vector<Event> together;
  bool connected = true;
  for (size_t i = 0; i < events.size(); ++i) {
    together.push_back(events[i]);
    if (i < gaps.size() && gaps[i] != Gap::kRest) continue;
    allowed.merge(Endings(step, together, connected));
    if (Ends(step, together, connected)) break;
    connected = connected && !Has(together, Event::kDisconnect);
    together.clear();
  }
  return allowed;
}

void Play(const Step& step, const std::vector<Event>& events, const std::vector<Gap>& gaps,
          Tally& tally) {
  const std::string name = Describe(step, events, gaps);
  Scene scene;
  step.reach(scene);
  if (scene.target->ended != 0) FAIL(name << ": it ended before anything happened");
  for (size_t i = 0; i < events.size(); ++i) {
    Happen(events[i], scene);
    if (i == gaps.size() || gaps[i] == Gap::kRest) scene.Settle();
    if (i < gaps.size() && gaps[i] == Gap::kTurn) scene.Turn();
  }
  if (scene.target->ended != 1) FAIL(name << ": it ended " << scene.target->ended << " times");
  const Ending ending{scene.target->status.code(), OutcomeOf(scene.target->status)};
  if (Allowed(step, events, gaps).count(ending) == 0) {
    FAIL(name << ": it must not end so: " << scene.target->status.ToString());
  }
  if (scene.target->info.outcome != ending.second) FAIL(name << ": CallInfo says otherwise");
  if (scene.peer != nullptr && !scene.world.listens && !scene.answers) scene.peer->Listen();
  scene.Settle();
  if (ending.second == Outcome::kNotSent && scene.target_heard) {
    FAIL(name << ": it was not sent, and the server heard it");
  }
  if (ending.first == absl::StatusCode::kOk && (*scene.target->answer)->text()->str() != kTarget) {
    FAIL(name << ": it was given another call's reply");
  }
  for (const auto& other : scene.others) {
    if (other->ended != 1) FAIL(name << ": another call ended " << other->ended << " times");
  }
  scene.target->answer.reset();
  scene.peer.reset();
  scene.world.accepted.clear();
  scene.Settle();
  if (scene.world.loop->timers().size() != 0) FAIL(name << ": a timer is still armed");
  ++tally.endings[ending];
  ++tally.scenes;
}

// Every order of the five events, with every choice of nothing or `other` for each of the four gaps
// between them.
void PlayAll(const Step& step, Gap other, Tally& tally) {
  std::vector<Event> events(kEvents.begin(), kEvents.end());
  do {
    for (unsigned choice = 0; choice < kAllChoices; choice += kStride) {
      std::vector<Gap> gaps;
      for (size_t i = 0; i + 1 < events.size(); ++i) {
        gaps.push_back((choice >> i & 1) != 0 ? other : Gap::kNothing);
      }
      Play(step, events, gaps, tally);
    }
  } while (std::next_permutation(events.begin(), events.end()));
}

using Code = absl::StatusCode;

// Nothing that may happen fails to: `seen` are endings that some play must have.
void PlayAll(const std::vector<Step>& steps, const std::vector<Ending>& seen) {
  SetLogSink([](LogLevel, std::string_view) {}, LogLevel::kError);
  Tally tally;
  for (const Step& step : steps) {
    for (const Gap other : kOthers) PlayAll(step, other, tally);
  }
  CHECK(tally.scenes == steps.size() * std::size(kOthers) * 120 * kChoices);
  for (const Ending& ending : seen) {
    INFO(absl::StatusCodeToString(ending.first));
    CHECK(tally.endings[ending] > 0);
  }
}

// Each is a ctest entry.

TEST_CASE("in every order, with small payloads", "[small]") {
  PlayAll(
      {// The call and the end of its channel may come to the loop together: then it just leaves.
       {"not on the loop yet",
        {Outcome::kNotSent, Outcome::kUnknown},
        true,
        false,
        true,
        &NotOnTheLoopYet},
       {"before the connection", {Outcome::kNotSent}, false, false, false, &BeforeTheConnection},
       {"before HELLO", {Outcome::kNotSent}, false, false, false, &BeforeHello},
       {"queued behind the server's limit",
        {Outcome::kNotSent},
        true,
        false,
        false,
        &BehindTheLimit},
       {"awaiting its reply", {Outcome::kUnknown}, true, false, true, &AwaitingTheReply}},
      {{Code::kOk, Outcome::kAnswered},
       {Code::kCancelled, Outcome::kNotSent},
       {Code::kCancelled, Outcome::kUnknown},
       {Code::kDeadlineExceeded, Outcome::kNotSent},
       {Code::kDeadlineExceeded, Outcome::kUnknown},
       {Code::kUnavailable, Outcome::kUnknown}});
}

TEST_CASE("in every order, behind a full wire", "[full_wire]") {
  PlayAll({{"queued for a full wire", {Outcome::kNotSent}, true, false, false, &BehindAFullWire}},
          {{Code::kOk, Outcome::kAnswered},
           {Code::kCancelled, Outcome::kNotSent},
           {Code::kDeadlineExceeded, Outcome::kNotSent}});
}

TEST_CASE("in every order, half sent", "[half_sent]") {
  PlayAll({{"half sent", {Outcome::kUnknown}, true, false, true, &HalfSent}},
          {{Code::kOk, Outcome::kAnswered},
           {Code::kCancelled, Outcome::kUnknown},
           {Code::kDeadlineExceeded, Outcome::kUnknown},
           {Code::kUnavailable, Outcome::kUnknown}});
}

TEST_CASE("in every order, with the reply on its way", "[half_answered]") {
  PlayAll({{"its reply on the way", {Outcome::kUnknown}, true, true, true, &ReplyOnTheWay}},
          {{Code::kOk, Outcome::kAnswered},
           {Code::kCancelled, Outcome::kUnknown},
           {Code::kDeadlineExceeded, Outcome::kUnknown},
           {Code::kUnavailable, Outcome::kUnknown}});
}

}  // namespace
}  // namespace farcall::testing
