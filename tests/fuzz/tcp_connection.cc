// The same stream as tcp_assembler's, through a socket and all of a TCP connection, which sends,
// withdraws, abandons and closes meanwhile; and what it says itself, read by the same rules.

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/tests/fuzz/target.h"
#include "farcall/tests/fuzz/tcp_judge.h"
#include "farcall/tests/fuzz/tcp_stream.h"
#include "farcall/tests/transports/tcp/wire.h"
#include "farcall/transports/tcp/connection.h"

namespace farcall::fuzz {
namespace {

constexpr size_t kPoolBytes = size_t{8} << 20;
constexpr size_t kLarge = 100'000;  // goes in chunks
constexpr char kEnough[] = "enough";

const tcp::Pools& Pools() {
  static const auto* pools = [] {
    const BufferPoolOptions options{.name = "fuzz", .max_bytes = kPoolBytes};
    return new tcp::Pools{std::make_shared<BufferPool>(options),
                          std::make_shared<BufferPool>(options)};
  }();
  return *pools;
}

class Link final : private Receiver {
 public:
  Link(const Told& told, Dice& dice)
      : told_(told),
        dice_(dice),
        judge_(
            told, dice, *pools_.receive, [this](Ticket ticket) { Abandon(ticket); },
            [this] { Close(); }) {
    int ends[2];
    FUZZ_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    peer_ = tcp::Descriptor(ends[1]);
    const tcp::Settings settings{.options = {}, .pools = pools_};
    OnLoop([&] {
      auto made = tcp::MakeConnection(loop_, tcp::Descriptor(ends[0]), settings);
      FUZZ_CHECK(made.ok());
      connection_ = *std::move(made);
      connection_->Start(*this);
    });
  }

  void Talk(std::string_view stream) {
    constexpr int kManyPieces = 500;
    constexpr size_t kSizes[] = {SIZE_MAX, 1, 24, 100, 4097, 30000, SIZE_MAX, SIZE_MAX};
    for (int pieces = 0; !stream.empty() && !closed_; ++pieces) {
      const size_t size = pieces < kManyPieces ? kSizes[dice_.Next() % 8] : SIZE_MAX;
      const ssize_t wrote =
          ::send(peer_.get(), stream.data(), std::min(size, stream.size()), MSG_NOSIGNAL);
      if (wrote < 0 && errno != EAGAIN) break;
      if (wrote > 0) stream.remove_prefix(static_cast<size_t>(wrote));
      OnLoop([this] { Act(); });
      if (wrote < 0) Settle();
      if (dice_.Next() % 4 != 1) Hear();
    }
    Settle();
    if (!closing_ && !closed_) judge_.CheckMemory();
    End();
  }

 private:
  struct Sent {
    std::string head, body;
    int done = 0;
    bool sent = false;
  };

  void OnLoop(absl::AnyInvocable<void()> work) {
    loop_.Post([this, work = std::move(work)]() mutable {
      inside_ = true;
      work();
      inside_ = false;
    });
    loop_.RunOnce();
  }

  void Settle() {
    for (int idle = 0; idle < 3;) {
      const bool heard = Hear();
      idle = loop_.RunOnce() == 0 && !heard ? idle + 1 : 0;
    }
  }

  // One deed of our side, in a turn.
  void Act() {
    switch (dice_.Next() % 16) {
      case 1:
      case 2:
        Send(100);
        break;
      case 3:
      case 4:
        Send(kLarge);
        break;
      case 5:
        Send(0);
        break;
      case 6:
        connection_->Withdraw(dice_.Next() % (sent_.size() + 1) + 1);
        break;
      case 7:
        if (judge_.admitted() > 0) Abandon(dice_.Next() % judge_.admitted() + 1);
        break;
      case 8:
        if (dice_.Next() % 8 == 1) Close();
        break;
      default:
        break;
    }
  }

  void Send(size_t bytes) {
    // A peer that does not listen makes what we say wait: there is memory for so much of it.
    if (pools_.send->stats().leased_bytes > kPoolBytes / 2) return;
    static const std::string pattern = tcp::testing::Pattern(kLarge);
    Sent message{.head = "message " + std::to_string(sent_.size() + 1),
                 .body = pattern.substr(0, bytes)};
    const Ticket ticket =
        connection_->Send(tcp::testing::MakeMessage(*pools_.send, message.head, message.body),
                          [this, ticket = sent_.size() + 1](SendResult result) {
                            FUZZ_CHECK(!inside_);
                            Sent& ended = sent_.at(ticket);
                            ++ended.done;
                            ended.sent = result.sent;
                            if (!result.sent) {
                              FUZZ_CHECK(!result.status.ok());
                              FUZZ_CHECK(result.message.body.view() == ended.body);
                            }
                          });
    FUZZ_CHECK(sent_.emplace(ticket, std::move(message)).second);
  }

  void Abandon(Ticket ticket) {
    const bool live = judge_.StateOf(ticket) == Judge::State::kLive && !closing_ && !closed_;
    connection_->Abandon(ticket, absl::CancelledError(kEnough));
    if (live) judge_.SetAbandoned(ticket);
  }

  void Close() {
    closing_ = true;
    connection_->Close(absl::CancelledError("closed by the dice"));
  }

  // What the connection says. False: nothing.
  bool Hear() {
    char bytes[65536];
    const ssize_t got = ::recv(peer_.get(), bytes, sizeof bytes, 0);
    if (got > 0) heard_.append(bytes, static_cast<size_t>(got));
    return got > 0;
  }

  // Closes whichever way is left, and looks at what all of it came to.
  void End() {
    const bool hurt = connection_->info().counters.violations > 0;
    const bool by_dice = closing_;
    if (!by_dice) {
      FUZZ_CHECK(closed_.has_value() == hurt);
      // Which of our transfers began is not in the peer's stream.
      const bool wrong_abandon =
          hurt && absl::StrContains(closed_->message(), "an ABANDON names a transfer");
      FUZZ_CHECK(wrong_abandon ? !told_.abandoned.empty() : hurt == told_.violated);
      if (!wrong_abandon) judge_.CheckComplete();
      for (Ticket ticket = 1; !hurt && ticket <= judge_.admitted(); ++ticket) {
        const bool abandoned = judge_.StateOf(ticket) == Judge::State::kAbandoned;
        FUZZ_CHECK(abandoned == told_abandoned_.contains(ticket));
      }
    }
    OnLoop([this] {
      if (dice_.Next() % 2 == 0) Close();
    });
    peer_.Reset();
    Settle();
    FUZZ_CHECK(closed_.has_value());
    for (const auto& [ticket, message] : sent_) FUZZ_CHECK(message.done == 1);
    OnLoop([this] { connection_.reset(); });
    clock_.Advance(std::chrono::seconds(5));  // of lingering
    Settle();
    judge_.DropHeld();
    FUZZ_CHECK(pools_.receive->stats().leased_bytes == 0);
    FUZZ_CHECK(pools_.send->stats().leased_bytes == 0);
    CheckHeard();
  }

  void CheckHeard() const {
    const Told said = ReadStream(heard_);
    FUZZ_CHECK(!said.violated);
    Ticket last = 0;
    for (const Told::Payload& message : said.messages) {
      const Ticket ticket = std::stoull(message.head.substr(message.head.rfind(' ')));
      FUZZ_CHECK(ticket > last);
      last = ticket;
      const Sent& sent = sent_.at(ticket);
      FUZZ_CHECK(sent.sent && message.head == sent.head && message.body == sent.body.size());
      FUZZ_CHECK(message.bytes == std::string_view(sent.body).substr(0, message.bytes.size()));
    }
  }

  Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) override {
    FUZZ_CHECK(!inside_ && !closing_ && !closed_);
    return judge_.Admit(ticket, head, sizes);
  }
  void OnMessage(Ticket ticket, Message&& message) override {
    FUZZ_CHECK(!inside_ && !closing_ && !closed_);
    judge_.OnMessage(ticket, std::move(message));
  }
  void OnAbandoned(Ticket ticket, absl::Status status) override {
    FUZZ_CHECK(!inside_ && !closing_ && !closed_);
    if (judge_.StateOf(ticket) == Judge::State::kAbandoned) {
      FUZZ_CHECK(absl::StrContains(status.message(), kEnough));
      FUZZ_CHECK(told_abandoned_.insert(ticket).second);
    } else {
      judge_.OnLost(ticket, status);
    }
  }
  void OnClosed(absl::Status status) override {
    FUZZ_CHECK(!inside_ && !closed_ && !status.ok());
    closed_ = std::move(status);
  }

  const Told& told_;
  Dice& dice_;
  const tcp::Pools& pools_ = Pools();
  Judge judge_;
  ManualClock clock_;
  EventLoop loop_{{.mode = ProgressMode::kEvent, .clock = &clock_, .helper_thread = false}};
  tcp::Descriptor peer_;
  std::unique_ptr<Connection> connection_;
  std::map<Ticket, Sent> sent_;
  std::set<Ticket> told_abandoned_;
  std::string heard_;
  std::optional<absl::Status> closed_;
  bool closing_ = false;
  bool inside_ = false;  // a call of ours
};

}  // namespace

std::vector<std::string> Seeds() { return StreamSeeds(); }

void Run(Input input) {
  Dice dice(input);
  const std::string stream = WriteStream(input);
  const Told told = ReadStream(stream);
  Link(told, dice).Talk(stream);
}

}  // namespace farcall::fuzz
