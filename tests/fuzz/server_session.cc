// A whole server session: what one peer can say and do to it, in any order, with time passing,
// handlers that wait, and replies that do not leave.

#include "farcall/rpc/server_session.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <list>
#include <map>

#include "farcall/rpc/server_loop.h"
#include "farcall/tests/fuzz/body.h"
#include "farcall/tests/fuzz/frames.h"
#include "farcall/tests/fuzz/target.h"
#include "farcall/tests/fuzz/wire.h"

namespace farcall::fuzz {
namespace {

enum Step : uint8_t {
  kSay,       // a message
  kAnnounce,  // a message whose payload comes later
  kComplete,  // u8 which
  kGiveUp,    // u8 which
  kPass,      // u16 milliseconds
  kTurn,
  kLeave,
  kOverflow,
  kLetGo,  // the oldest handler that waits
  kCut,
  kDrain,
  kSteps,
};

class SubjectImpl {
 public:
  absl::Status Do(Context& context, const Everything& request, Reply<Everything>& reply) {
    Enter(context);
    const std::string read = Repack(request);
    context.metadata().ForEach([&](std::string_view key, std::string_view value) {
      context.AddReplyMetadata(std::string(key), std::string(value));
    });
    if (request.yes()) return absl::NotFoundError(read.substr(0, request.small()));
    if (context.attachment()) reply.Attach(context.TakeAttachment());
    reply.Finish(CreateEverything(reply));
    return absl::OkStatus();
  }

  asio::awaitable<absl::Status> Wait(Context& context, Msg<Everything> request,
                                     Reply<Everything>& reply) {
    Enter(context);
    asio::steady_timer timer(co_await asio::this_coro::executor,
                             asio::steady_timer::time_point::max());
    const auto place = waiting_.insert(waiting_.end(), &timer);
    struct Leave {
      std::list<asio::steady_timer*>& list;
      std::list<asio::steady_timer*>::iterator place;
      ~Leave() { list.erase(place); }
    } const leave{waiting_, place};
    boost::system::error_code let_go;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, let_go));
    reply.Finish(CreateEverything(reply, false, 0, 7, 0, request->number()));
    co_return absl::OkStatus();
  }

  absl::Status Object(Context& context, const EverythingT& request, EverythingT& reply) {
    Enter(context);
    reply.text = request.text;
    reply.bytes = request.bytes;
    return absl::OkStatus();
  }

  void LetGo() {
    if (!waiting_.empty()) waiting_.front()->cancel();
  }

 private:
  static void Enter(Context& context) {
    FUZZ_CHECK(context.peer().transport == "wire");
    FUZZ_CHECK(context.remaining() <= std::chrono::minutes(2));
  }

  std::list<asio::steady_timer*> waiting_;
};

// Takes every token; nothing is beside anything.
class Book final : public PathHost {
 public:
  absl::StatusOr<uint64_t> Enter(const ConnectionInfo& /*over*/, std::string_view token,
                                 EndPath /*end*/, TimePoint /*now*/) override {
    if (token == "bad") return absl::PermissionDeniedError("a bad token");
    ++present;
    return 1;
  }
  std::vector<PathOffer> Offer(uint64_t /*session*/, const ConnectionInfo& /*over*/,
                               TimePoint /*now*/) override {
    return {{"fast", "value"}};
  }
  size_t Paths(uint64_t /*session*/) const override { return 0; }
  void Leave(uint64_t /*session*/) override { --present; }

  int present = 0;
};

class Stage {
 public:
  Stage() {
    // Small, so that a short script reaches them.
    shared_.options.limits = {.max_body_bytes = 20000,
                              .max_attachment_bytes = 2000,
                              .max_calls_in_flight = 3,
                              .max_tables = 500};
    FUZZ_CHECK(shared_.methods.Add(service_).ok());
    wire_->on_heard = [this](const FrameHeader& header, const Message&) { Hear(header); };
    // What did not leave is no answer: another one may come.
    wire_->on_overflow = [this](const FrameHeader& header) {
      if (header.type == FrameType::kReply) ++unanswered_[header.call];
    };
    OnLoop([this] {
      std::unique_ptr<Connection> connection = wire_->Open();
      connection->SetPathHost(book_);
      home_.Accept(std::move(connection));
    });
  }

  void Play(Input& script) {
    // Each step takes a turn: a script of many would only take long.
    for (int steps = 0; steps < 200 && !script.empty(); ++steps) {
      OnLoop([&] { Take(static_cast<Step>(script.Byte() % kSteps), script); });
    }
    OnLoop([this] { wire_->Cut(); });
    for (int turns = 0; turns < 10; ++turns) OnLoop([this] { wire_->Turn(); });
    FUZZ_CHECK(shared_.connections_open == 0);
    FUZZ_CHECK(book_->present == 0);
    FUZZ_CHECK(home_.tally().CallsRunning() == 0);  // those that waited were cancelled
    FUZZ_CHECK(pool_->stats().leased_bytes == 0);
  }

 private:
  void OnLoop(absl::AnyInvocable<void()> work) {
    loop_->Post(std::move(work));
    loop_->RunOnce();
  }

  void Take(Step step, Input& script) {
    switch (step) {
      case kSay:
      case kAnnounce:
        Say(TakeMessage(script, pool_, {}), step == kAnnounce);
        break;
      case kComplete:
        wire_->Complete(script.Byte());
        break;
      case kGiveUp:
        wire_->GiveUp(script.Byte());
        break;
      case kPass:
        clock_.Advance(std::chrono::milliseconds(script.Take<uint16_t>()));
        break;
      case kTurn:
        wire_->Turn();
        break;
      case kLeave:
        wire_->Leave();
        break;
      case kOverflow:
        wire_->Overflow();
        break;
      case kLetGo:
        subject_.LetGo();
        break;
      case kCut:
        wire_->Cut();
        break;
      case kDrain:
        shared_.draining = true;
        home_.Drain();
        break;
      case kSteps:
        break;
    }
  }

  void Say(Message message, bool later) {
    if (wire_->closed()) return;
    const absl::StatusOr<FrameHeader> header = DecodeHeader(message.head.bytes());
    if (header.ok() && CheckFields(header->type, message.head.bytes()).ok()) {
      greeted_ |= header->type == FrameType::kHello;
      if (header->type == FrameType::kRequest) ++unanswered_[header->call];
      if (header->type == FrameType::kPing) ++pings_[header->call];
      if (header->type == FrameType::kProbe) ++probes_[header->call];
      if (header->type == FrameType::kOffers) ++questions_;
    }
    wire_->Say(std::move(message), later);
  }

  // One answer to each question, and no other word.
  void Hear(const FrameHeader& header) {
    switch (header.type) {
      case FrameType::kHello:
      case FrameType::kGoAway:
        break;
      case FrameType::kReply:
        FUZZ_CHECK(greeted_ && unanswered_[header.call]-- > 0);
        break;
      case FrameType::kPing:
        FUZZ_CHECK(greeted_);
        break;
      case FrameType::kPong:
        FUZZ_CHECK(greeted_ && pings_[header.call]-- > 0);
        break;
      case FrameType::kProbe:
        FUZZ_CHECK(greeted_ && probes_[header.call]-- > 0);
        break;
      case FrameType::kOffers:
        FUZZ_CHECK(greeted_ && questions_-- > 0);
        break;
      default:
        Fail("a server says no such frame", __FILE__, __LINE__);
    }
  }

  ManualClock clock_;
  const std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  const std::shared_ptr<Book> book_ = std::make_shared<Book>();
  const std::shared_ptr<Wire> wire_ = std::make_shared<Wire>(pool_);
  const std::shared_ptr<EventLoop> loop_ = std::make_shared<EventLoop>(
      EventLoopOptions{.mode = ProgressMode::kEvent, .clock = &clock_, .helper_thread = false});
  SubjectImpl subject_;
  const Service service_ = Subject::Bind(subject_);
  ServerShared shared_;
  ServerLoop home_{loop_, shared_};
  bool greeted_ = false;
  std::map<uint64_t, int> unanswered_, pings_, probes_;
  int questions_ = 0;  // OFFERS
};

constexpr uint8_t kDo = 0, kWait = 1, kObject = 2, kWatch = 3, kNoMethod = 9;

Script Greeting() {
  Script script;
  PutHello(script.Byte(kSay), 100);
  return script;
}

}  // namespace

std::vector<std::string> Seeds() {
  Script calls = Greeting();
  for (const uint8_t method : {kDo, kWait, kObject, kWatch, kNoMethod}) {
    PutRequest(calls.Byte(kSay), method, method, "hello");
  }
  calls.Byte(kLetGo).Byte(kTurn).Byte(kLeave);

  Script later = Greeting();
  PutRequest(later.Byte(kAnnounce), 1, kDo, "one");
  PutRequest(later.Byte(kAnnounce), 2, kDo, "two");
  PutRequest(later.Byte(kAnnounce), 3, kDo, "three");
  PutControl(later.Byte(kSay), FrameType::kCancel, 1).Byte(kTurn);
  later.Byte(kGiveUp).Byte(0).Byte(kComplete).Byte(0);

  Script expiry = Greeting();
  PutRequest(expiry.Byte(kSay), 1, kWait, "");
  PutRequest(expiry.Byte(kAnnounce), 2, kDo, "late");
  expiry.Byte(kPass).Put(uint16_t{1001}).Byte(kTurn).Byte(kTurn).Byte(kPass).Put(uint16_t{60000});

  Script control = Greeting();
  PutControl(control.Byte(kSay), FrameType::kPing, 7);
  PutControl(control.Byte(kSay), FrameType::kPong, 7);
  PutControl(control.Byte(kSay), FrameType::kGoAway, 0).Byte(kLeave).Byte(kOverflow);
  PutControl(control.Byte(kSay), FrameType::kGoAway, 0, 14);

  Script draining = Greeting();
  draining.Byte(kDrain);
  PutRequest(draining.Byte(kSay), 1, kDo, "").Byte(kCut).Byte(kTurn);
  Script asks = Greeting();
  PutOffers(asks.Byte(kSay), {}).Byte(kTurn);
  PutOffers(asks.Byte(kSay), {"fast"});
  Script path;
  PutHello(path.Byte(kSay), 100, kFeatureOffers, "good");
  PutProbe(path.Byte(kSay), 1, "small").Byte(kTurn);
  PutProbe(path.Byte(kAnnounce), 2, "later").Byte(kComplete).Byte(0);
  PutProbe(path.Byte(kAnnounce), 3, "never");
  PutProbe(path.Byte(kSay), 4, "too early").Byte(kTurn);
  Script stranger;
  PutHello(stranger.Byte(kSay), 100, kFeatureOffers, "bad");
  Script noise;
  PutNoise(noise.Byte(kSay), "GET / HTTP/1.1\r\n\r\n");
  Script twice = Greeting();
  PutHello(twice.Byte(kSay), 1);
  return {calls.text(), later.text(), expiry.text(),   control.text(), draining.text(),
          asks.text(),  path.text(),  stranger.text(), noise.text(),   twice.text()};
}

void Run(Input input) { Stage().Play(input); }

}  // namespace farcall::fuzz
