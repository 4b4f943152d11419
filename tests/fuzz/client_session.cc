// A whole channel with its client sessions: what a server can say and do to it, in any order, while
// calls start, are cancelled and run out of time.

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "farcall/rpc/channel.h"
#include "farcall/rpc/outcome.h"
#include "farcall/tests/fuzz/body.h"
#include "farcall/tests/fuzz/frames.h"
#include "farcall/tests/fuzz/target.h"
#include "farcall/tests/fuzz/wire.h"

namespace farcall::fuzz {
namespace {

enum Step : uint8_t {
  kAsk,       // u8 method, u16 timeout in milliseconds, flags, text
  kCancel,    // u8 which call
  kConnect,   // the attempt succeeds
  kRefuse,    // or fails
  kSay,       // u8 which wire, a message
  kAnnounce,  // the same, and its payload comes later
  kComplete,  // u8 which wire, u8 which message
  kGiveUp,    // likewise
  kPass,      // u16 milliseconds
  kTurn,      // every wire
  kLeave,     // u8 which wire
  kOverflow,  // u8 which wire
  kCut,       // u8 which wire
  kDropChannel,
  kSteps,
};
constexpr uint8_t kWaitForReady = 1;
constexpr uint8_t kWithAttachment = 2;

// Connects when the script says so.
class Switchboard final : public Transport, public std::enable_shared_from_this<Switchboard> {
 public:
  std::unique_ptr<PendingConnect> Connect(EventLoop& /*loop*/, const Endpoint& /*endpoint*/,
                                          TimePoint /*deadline*/, ConnectDone done) override {
    auto attempt = std::make_unique<Attempt>(*this);
    FUZZ_CHECK(attempt_ == nullptr);
    attempt_ = attempt.get();
    done_ = std::move(done);
    return attempt;
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& /*endpoint*/,
                                                   std::vector<EventLoop*> /*loops*/,
                                                   Acceptor /*acceptor*/) override {
    return absl::UnimplementedError("");
  }

  // One path, "fast", as soon as it is offered.
  std::unique_ptr<PathSelector> MakePathSelector() override {
    return std::make_unique<Fast>(*this);
  }

  bool asked() const { return attempt_ != nullptr; }
  void Answer(absl::StatusOr<std::unique_ptr<Connection>> connection) {
    attempt_ = nullptr;
    std::exchange(done_, nullptr)(std::move(connection));
  }

 private:
  class Fast final : public PathSelector {
   public:
    explicit Fast(Switchboard& board) : board_(board) {}
    std::vector<PathCandidate> Select(const std::vector<PathOffer>& offers) override {
      PathCandidate candidate;
      candidate.name = "fast";
      candidate.unusable = absl::UnavailableError("not offered");
      for (const PathOffer& offer : offers) {
        if (offer.name == "fast") candidate.unusable = absl::OkStatus();
      }
      candidate.transport = board_.shared_from_this();
      candidate.token = "token";
      return {candidate};
    }

   private:
    Switchboard& board_;
  };
  struct Attempt final : PendingConnect {
    explicit Attempt(Switchboard& owner) : board(owner) {}
    ~Attempt() override {
      if (board.attempt_ == this) board.attempt_ = nullptr;
    }
    Switchboard& board;
  };

  Attempt* attempt_ = nullptr;
  ConnectDone done_;
};

// A call, what became of it, and what its server saw and said.
struct Asked {
  int ended = 0;
  uint64_t number = 0;
  bool left = false;      // its request
  bool answered = false;  // by a REPLY
  bool not_run = false;   // by one that says so
  asio::cancellation_signal cancel;
};

struct Line {
  std::shared_ptr<Wire> wire;
  std::vector<uint64_t> ids;         // of the requests that were heard
  std::map<uint64_t, Asked*> calls;  // by id
  std::string probe;                 // the body of the last PROBE that was heard
};

class Stage {
 public:
  Stage() {
    ChannelOptions options;
    options.loop = loop_;
    options.backoff.jitter = 0;  // it draws from a seed that is never the same
    options.limits = {.max_body_bytes = 2000, .max_attachment_bytes = 2000, .max_tables = 500};
    options.max_waiting_calls = 5;
    channel_.emplace(board_, *ParseEndpoint("wire://peer"), options);
    client_.emplace(*channel_);
  }

  void Play(Input& script) {
    // Each step takes a turn: a script of many would only take long.
    for (int steps = 0; steps < 200 && !script.empty(); ++steps) {
      OnLoop([&] { Take(static_cast<Step>(script.Byte() % kSteps), script); });
    }
    // Whatever happened: every call has a deadline.
    for (int turns = 0; turns < 5; ++turns) Pass(std::chrono::minutes(2));
    CheckAllEnded();
    DropChannel();
    for (int turns = 0; turns < 10; ++turns) Pass(std::chrono::seconds(1));
    for (const Line& line : lines_) FUZZ_CHECK(line.wire->closed());
    lines_.clear();
    FUZZ_CHECK(pool_->stats().leased_bytes == 0);
  }

 private:
  void OnLoop(absl::AnyInvocable<void()> work) {
    loop_->Post(std::move(work));
    loop_->RunOnce();
  }

  void Pass(Duration time) {
    clock_.Advance(time);
    OnLoop([this] { TurnWires(); });
    OnLoop([this] { TurnWires(); });
  }

  void TurnWires() {
    for (const Line& line : lines_) line.wire->Turn();
  }

  void CheckAllEnded() const {
    for (const Asked& asked : asked_) FUZZ_CHECK(asked.ended == 1);
  }

  Line* TakeLine(Input& script) {
    const size_t which = script.Byte();
    return lines_.empty() ? nullptr : &lines_[which % lines_.size()];
  }

  void Take(Step step, Input& script) {
    switch (step) {
      case kAsk:
        Ask(script);
        break;
      case kCancel: {
        const size_t which = script.Byte();
        if (which < asked_.size()) asked_[which].cancel.emit(asio::cancellation_type::terminal);
        break;
      }
      case kConnect:
        Connect();
        break;
      case kRefuse:
        if (board_->asked()) board_->Answer(absl::UnavailableError("refused"));
        break;
      case kPass:
        clock_.Advance(std::chrono::milliseconds(script.Take<uint16_t>()));
        break;
      case kTurn:
        TurnWires();
        break;
      case kDropChannel:
        DropChannel();
        break;
      default:
        if (Line* line = TakeLine(script)) TakeWire(step, *line, script);
    }
  }

  void TakeWire(Step step, Line& line, Input& script) {
    switch (step) {
      case kSay:
      case kAnnounce:
        Say(line, TakeMessage(script, pool_, line.ids), step == kAnnounce);
        break;
      case kComplete:
        line.wire->Complete(script.Byte());
        break;
      case kGiveUp:
        line.wire->GiveUp(script.Byte());
        break;
      case kLeave:
        line.wire->Leave();
        break;
      case kOverflow:
        line.wire->Overflow();
        break;
      default:
        line.wire->Cut();
    }
  }

  void Ask(Input& script) {
    const uint8_t method = script.Byte();
    const auto timeout_ms = script.Take<uint16_t>();
    const uint8_t flags = script.Byte();
    const std::string_view text = script.Short();
    if (!client_ || asked_.size() >= 64) return;
    Asked& asked = asked_.emplace_back();
    asked.number = asked_.size();
    CallOptions options{.timeout = std::chrono::milliseconds(timeout_ms),
                        .wait_for_ready = (flags & kWaitForReady) != 0,
                        .metadata = {{"key", std::string(text)}}};
    Builder<Everything> request = client_->NewDo();
    const auto text_at = request.CreateString(text.data(), text.size());
    EverythingBuilder all(request);
    all.add_number(asked.number);
    all.add_text(text_at);
    request.Finish(all.Finish());
    if ((flags & kWithAttachment) != 0) request.Attach(*request.AllocateAttachment(100));
    auto done = asio::bind_cancellation_slot(
        asked.cancel.slot(),
        [&asked](absl::StatusOr<Msg<Everything>> reply) { End(asked, std::move(reply)); });
    if (method % 2 == 0) {
      client_->AsyncDo(std::move(request), options, std::move(done));
    } else {
      client_->AsyncWait(std::move(request), options, std::move(done));
    }
  }

  static void End(Asked& asked, absl::StatusOr<Msg<Everything>> reply) {
    FUZZ_CHECK(++asked.ended == 1);
    if (reply.ok()) Repack(**reply);
    switch (OutcomeOf(reply.status())) {
      case Outcome::kAnswered:
        FUZZ_CHECK(asked.answered);
        break;
      case Outcome::kNotSent:
        FUZZ_CHECK(!asked.left);
        break;
      case Outcome::kNotRun:
        FUZZ_CHECK(asked.not_run);
        break;
      case Outcome::kUnknown:
        FUZZ_CHECK(asked.left || asked.answered);  // by a reply that never came whole
        break;
    }
  }

  void Connect() {
    if (!board_->asked()) return;
    Line& line = lines_.emplace_back();
    line.wire = std::make_shared<Wire>(pool_);
    line.wire->on_heard = [this, &line](const FrameHeader& header, const Message& message) {
      Hear(line, header, message);
    };
    line.wire->on_left = [&line](const FrameHeader& header) {
      if (header.type == FrameType::kRequest) line.calls.at(header.call)->left = true;
    };
    board_->Answer(line.wire->Open());
  }

  void Say(Line& line, Message message, bool later) {
    if (line.wire->closed()) return;
    const absl::StatusOr<FrameHeader> header = DecodeHeader(message.head.bytes());
    if (header.ok() && header->type == FrameType::kReply) {
      if (const auto call = line.calls.find(header->call); call != line.calls.end()) {
        call->second->answered = true;
        call->second->not_run |= (header->flags & kFlagNotRun) != 0;
      }
    }
    // A script cannot know what it was asked; odd ones are liars.
    if (header.ok() && header->type == FrameType::kProbe && header->call % 2 == 0) {
      message.body = TightBuffer(line.probe);
    }
    wire_says_hello_ |= header.ok() && header->type == FrameType::kHello;
    line.wire->Say(std::move(message), later);
  }

  void Hear(Line& line, const FrameHeader& header, const Message& message) {
    switch (header.type) {
      case FrameType::kRequest: {
        FUZZ_CHECK(wire_says_hello_);
        FUZZ_CHECK(!line.calls.contains(header.call));
        const auto* request = flatbuffers::GetRoot<Everything>(message.body.data());
        line.ids.push_back(header.call);
        line.calls[header.call] = &asked_.at(request->number() - 1);
        break;
      }
      case FrameType::kProbe:
        line.probe = std::string(message.body.view());
        break;
      case FrameType::kCancel:
        FUZZ_CHECK(line.calls.contains(header.call));
        break;
      case FrameType::kReply:
        Fail("a client says no such frame", __FILE__, __LINE__);
        break;
      default:
        break;
    }
  }

  void DropChannel() {
    client_.reset();
    channel_.reset();
  }

  ManualClock clock_;
  const std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  const std::shared_ptr<EventLoop> loop_ = std::make_shared<EventLoop>(
      EventLoopOptions{.mode = ProgressMode::kEvent, .clock = &clock_, .helper_thread = false});
  const std::shared_ptr<Switchboard> board_ = std::make_shared<Switchboard>();
  std::deque<Asked> asked_;
  std::deque<Line> lines_;
  std::optional<Channel> channel_;
  std::optional<Subject::Client> client_;
  bool wire_says_hello_ = false;
};

Script& PutAsk(Script& script, uint16_t timeout_ms, uint8_t flags, std::string_view text) {
  return script.Byte(kAsk).Byte(0).Put(timeout_ms).Byte(flags).Short(text);
}

// One connection, and its server's HELLO.
Script Greeting(uint8_t calls_in_flight = 2, uint8_t features = 0) {
  Script script;
  script.Byte(kTurn).Byte(kConnect);
  PutHello(script.Byte(kSay).Byte(0), calls_in_flight, features);
  return script;
}

// A path that is in use, on the second line.
Script Upgraded() {
  Script script = Greeting(2, kFeatureOffers);
  PutOffers(script.Byte(kSay).Byte(0), {"fast"}).Byte(kTurn).Byte(kConnect);
  PutHello(script.Byte(kSay).Byte(1), 2).Byte(kTurn).Byte(kLeave).Byte(1);
  PutProbe(script.Byte(kSay).Byte(1), 0, "").Byte(kTurn).Byte(kLeave).Byte(1);
  PutProbe(script.Byte(kSay).Byte(1), 0, "").Byte(kTurn);
  return script;
}

}  // namespace

std::vector<std::string> Seeds() {
  Script answered = Greeting();
  for (const char* text : {"one", "two", "three", "four"}) PutAsk(answered, 1000, 0, text);
  answered.Byte(kLeave).Byte(0).Byte(kLeave).Byte(0);
  PutReply(answered.Byte(kSay).Byte(0), 0, 0, 0);
  PutReply(answered.Byte(kSay).Byte(0), 1, 5, 0);
  PutReply(answered.Byte(kSay).Byte(0), 2, 14, kFlagNotRun);
  PutReply(answered.Byte(kAnnounce).Byte(0), 3, 0, 0).Byte(kComplete).Byte(0).Byte(0);

  Script given_up = Greeting();
  PutAsk(given_up, 1000, 0, "cancelled").Byte(kCancel).Byte(0).Byte(kTurn).Byte(kTurn);
  PutAsk(given_up, 1000, kWithAttachment, "cancelled later").Byte(kLeave).Byte(0);
  given_up.Byte(kCancel).Byte(1);
  PutAsk(given_up, 100, 0, "late").Byte(kLeave).Byte(0).Byte(kPass).Put(uint16_t{200});
  PutAsk(given_up, 100, 0, "half").Byte(kLeave).Byte(0);
  PutReply(given_up.Byte(kAnnounce).Byte(0), 3, 0, 0).Byte(kGiveUp).Byte(0).Byte(0);

  Script lost = Greeting();
  PutAsk(lost, 1000, 0, "sent").Byte(kLeave).Byte(0);
  PutAsk(lost, 1000, kWaitForReady, "unsent").Byte(kCut).Byte(0).Byte(kTurn).Byte(kConnect);
  PutHello(lost.Byte(kSay).Byte(1), 1).Byte(kLeave).Byte(1);
  PutReply(lost.Byte(kSay).Byte(1), 0, 0, 0);

  Script refused;
  PutAsk(refused, 1000, kWaitForReady, "waits");
  PutAsk(refused, 1000, 0, "fails").Byte(kRefuse).Byte(kPass).Put(uint16_t{100}).Byte(kConnect);

  Script draining = Greeting();
  PutAsk(draining, 1000, 0, "old").Byte(kLeave).Byte(0);
  PutControl(draining.Byte(kSay).Byte(0), FrameType::kGoAway, 0).Byte(kTurn).Byte(kConnect);
  PutHello(draining.Byte(kSay).Byte(1), 9);
  PutReply(draining.Byte(kSay).Byte(0), 0, 0, 0).Byte(kDropChannel).Byte(kTurn);

  // A call's place becomes free while the connection ends.
  Script no_way = Greeting(1);
  PutAsk(no_way, 1000, 0, "withdrawn");
  PutAsk(no_way, 1000, kWaitForReady, "next");
  no_way.Byte(kCancel).Byte(0).Byte(kCut).Byte(0).Byte(kTurn);

  Script path = Upgraded();
  PutAsk(path, 1000, 0, "by the path").Byte(kLeave).Byte(1);
  PutReply(path.Byte(kSay).Byte(1), 0, 0, 0);
  PutAsk(path, 1000, 0, "lost").Byte(kLeave).Byte(1).Byte(kCut).Byte(1).Byte(kTurn);
  PutAsk(path, 1000, 0, "by the first").Byte(kLeave).Byte(0);
  path.Byte(kPass).Put(uint16_t{200}).Byte(kTurn);
  Script together = Upgraded();
  PutAsk(together, 1000, 0, "lost").Byte(kLeave).Byte(1).Byte(kCut).Byte(0).Byte(kTurn);
  Script half = Greeting(2, kFeatureOffers);
  PutOffers(half.Byte(kSay).Byte(0), {"fast"}).Byte(kTurn).Byte(kConnect);
  PutHello(half.Byte(kSay).Byte(1), 2).Byte(kTurn);
  PutProbe(half.Byte(kSay).Byte(1), 1, "a lie").Byte(kTurn).Byte(kDropChannel).Byte(kTurn);
  Script unasked = Greeting(2, kFeatureOffers);
  PutOffers(unasked.Byte(kSay).Byte(0), {}).Byte(kTurn);
  PutOffers(unasked.Byte(kSay).Byte(0), {"fast"});

  Script wrong = Greeting();
  PutControl(wrong.Byte(kSay).Byte(0), FrameType::kCancel, 1);
  Script noise;
  PutNoise(noise.Byte(kTurn).Byte(kConnect).Byte(kSay).Byte(0), "HTTP/1.1 400 Bad Request");
  return {answered.text(), given_up.text(), lost.text(),  refused.text(),
          draining.text(), no_way.text(),   path.text(),  together.text(),
          half.text(),     unasked.text(),  wrong.text(), noise.text()};
}

void Run(Input input) { Stage().Play(input); }

}  // namespace farcall::fuzz
