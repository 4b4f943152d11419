// A sender and a receiver of transfers over a make-believe device: whatever happens in whatever
// order, each transfer ends once on both sides, what arrives is what was sent, and nobody touches
// memory that somebody else was given back.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "farcall/rpc/buffer_pool.h"
#include "farcall/transports/rdma/incoming_transfers.h"
#include "farcall/transports/rdma/outgoing_transfers.h"
#include "farcall/transports/rdma/read_queue.h"

namespace farcall::rdma {
namespace {

constexpr std::byte kGivenBack{0xdd};
constexpr uint32_t kChunk = 40'000;
constexpr uint64_t kSmall = 300;
constexpr uint64_t kLarge = kSmallPayloadBytes + 1;

// What the part of a message holds: no two messages of a history the same, no place in it like
// another, nowhere what memory that was given back holds.
const std::byte* Contents(Ticket ticket) {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> filled(kLarge + 1000);
    for (size_t i = 0; i < filled.size(); ++i) {
      filled[i] = static_cast<std::byte>((i * 7 + i / 199) % 200);
    }
    return filled;
  }();
  return bytes.data() + ticket % 1000;
}

class World {
 public:
  explicit World(uint32_t seed, BufferPool& pool)
      : random_(seed),
        pool_(pool),
        max_open_(1 + Dice(6)),
        sender_({.max_open = max_open_}),
        receiver_({.max_open = max_open_,
                   .max_announced_bytes = Dice(2) == 0 ? 3 * kLarge : uint64_t{1} << 30}),
        reads_(1 + Dice(3), kChunk) {}

  void Run() {
    const int events = 10 + static_cast<int>(Dice(50));
    for (int i = 0; i < events; ++i) {
      Something();
      Act();
    }
    if (Dice(4) == 0) {
      Lose();
    } else {
      Drain();
    }
    Must(sender_.size() == 0 && receiver_.size() == 0, "all transfers are gone");
    Must(sender_.open() == 0 && sender_.zombie_bytes() == 0, "the sender counted right");
    Must(receiver_.announced_bytes() == 0, "the receiver counted right");
    Must(lost_ || receiver_.unanswered() == 0, "each RTS was answered");
    Must(reads_.empty() && readable_.empty(), "no READ is left, and nothing to read");
    Must(began_ == finished_.size(), "each done ran");
    Must(lost_ || admitted_.empty(), "each that was admitted was delivered or told of");
    Must(pool_.stats().leased_bytes == 0, "no memory is held");
  }

  size_t delivered() const { return delivered_; }

 private:
  struct Source {
    Ticket ticket = 0;
    uint64_t bytes = 0;
  };

  uint32_t Dice(uint32_t sides) { return static_cast<uint32_t>(random_()) % sides; }

  static void Must(bool condition, const char* what) {
    if (!condition) FAIL(what);  // CHECK is slow, and there are millions of these
  }

  void Something() {
    switch (Dice(12)) {
      case 0:
      case 1:
        return Begin();
      case 2:
        return Post();
      case 3:
        sender_.Withdraw(began_ == 0 ? 0 : 1 + Dice(static_cast<uint32_t>(began_)), now_);
        return;
      case 4:
        return ReceiverHears();
      case 5:
        return SenderHears();
      case 6:
        return GiveMemory(Dice(4) != 0);
      case 7:
        if (Dice(4) == 0) now_ += kMaxMemoryWait;
        return receiver_.ExpireWaiting(now_);
      case 8:
        if (Dice(2) == 0) receiver_.Abandon(1 + Dice(10), absl::DeadlineExceededError("late"));
        return;
      case 9:
        return PostRead();
      case 10:
        return CompleteRead();
      default:
        return CompleteRevoke();
    }
  }

  void Begin() {
    if (!sender_.CanBegin()) return;
    Message message;
    const Ticket ticket = ++began_;
    const uint64_t body = Dice(20) == 0 ? kLarge : Dice(2) * kSmall;
    message.body = Fresh(body, Contents(2 * ticket));
    message.attachment = Fresh(kSmall, Contents(2 * ticket + 1));
    const uint32_t id =
        sender_.Begin(ticket, std::move(message), [this, ticket](SendResult result) {
          Must(finished_.insert(ticket).second, "done runs once");
          Must(result.sent == (posted_.count(ticket) != 0), "sent is true");
          Must(result.status.ok() || lost_ || absl::IsCancelled(result.status),
               "the status is right");
          Scrub(result.message);
        });
    built_.push_back({id, ticket});
  }

  Buffer Fresh(uint64_t bytes, const std::byte* contents) {
    Buffer buffer = *pool_.Allocate(bytes);
    std::memcpy(buffer.data(), contents, bytes);
    return buffer;
  }

  static void Scrub(Message& message) {
    for (Buffer* buffer : {&message.body, &message.attachment}) {
      if (*buffer) std::memset(buffer->data(), static_cast<int>(kGivenBack), buffer->size());
    }
  }

  void Post() {
    if (built_.empty()) return;
    const auto [id, ticket] = built_.front();
    built_.pop_front();
    if (finished_.count(ticket) != 0) return;  // withdrawn
    sender_.Posted(id);
    posted_.insert(ticket);
    Message& message = sender_.message(id);
    const auto region = [](const Buffer& buffer) {
      if (buffer.empty()) return Region{};
      return Region{reinterpret_cast<uint64_t>(buffer.data()), 1};
    };
    readable_[id] = ticket;
    to_receiver_.push_back({.kind = Kind::kRts,
                            .transfer = id,
                            .sizes = {message.body.size(), message.attachment.size()},
                            .body = region(message.body),
                            .attachment = region(message.attachment)});
  }

  void ReceiverHears() {
    if (to_receiver_.empty()) return;
    const Envelope envelope = to_receiver_.front();
    to_receiver_.pop_front();
    if (envelope.kind == Kind::kCancel) {
      Must(receiver_.Cancel(envelope.transfer).ok(), "an honest CANCEL is none of the violations");
      return;
    }
    Must(receiver_.Announce(envelope).ok(), "an honest RTS is none of the violations");
    ++announced_;
    if (Dice(10) == 0) return receiver_.Refuse(envelope.transfer, absl::NotFoundError("no"));
    admitted_.insert(announced_);
    ticket_of_[announced_] = readable_.at(envelope.transfer);
    receiver_.Accept(envelope, announced_, {}, now_);
  }

  void SenderHears() {
    if (to_sender_.empty()) return;
    Must(sender_.Fin(to_sender_.front()).ok(), "an honest FIN is none of the violations");
    to_sender_.pop_front();
  }

  void GiveMemory(bool there_is) {
    const auto wanted = receiver_.WantsMemory();
    if (!wanted) return;
    const bool large = wanted->sizes.body + wanted->sizes.attachment > kSmallPayloadBytes;
    if (large && !reads_.MayBegin()) return;
    if (!there_is) {
      receiver_.NoMemory(wanted->transfer, now_);
      return;
    }
    wanted->message->body = *pool_.Allocate(wanted->sizes.body);
    wanted->message->attachment = *pool_.Allocate(wanted->sizes.attachment);
    Scrub(*wanted->message);
    receiver_.Memory(wanted->transfer);
  }

  void PostRead() {
    ReadQueue::Read read;
    if (reads_.Next(read)) out_.push_back(read);
  }

  // The copy happens when the READ completes: it could have until then.
  void CompleteRead() {
    if (out_.empty()) return;
    const size_t at = Dice(static_cast<uint32_t>(out_.size()));
    const ReadQueue::Read read = out_[at];
    out_.erase(out_.begin() + static_cast<ptrdiff_t>(at));
    const ReadSegment& segment = read.segment;
    if (!lost_) {
      Must(readable_.count(read.transfer) != 0, "a READ reads what is offered");
      std::memcpy(segment.local, reinterpret_cast<const void*>(segment.remote_address),
                  segment.bytes);
      Must(*segment.local != kGivenBack, "the source is not given back yet");
    } else {
      // A device may still write until the queue pair is gone.
      std::memset(segment.local, 0xee, segment.bytes);
    }
    const ReadQueue::Progress progress = reads_.Completed(read.transfer);
    if (progress == ReadQueue::Progress::kArrived) receiver_.Arrived(read.transfer);
    if (progress == ReadQueue::Progress::kDrained) receiver_.Drained(read.transfer);
  }

  void CompleteRevoke() {
    if (revokes_.empty()) return;
    const uint32_t id = revokes_.front();
    revokes_.pop_front();
    readable_.erase(id);
    sender_.Revoked(id);
  }

  // Performs what both tables say, until they say no more.
  void Act() {
    while (ActSender() || ActReceiver()) {
    }
  }

  bool ActSender() {
    OutgoingTransfers::Actions actions;
    sender_.TakeActions(actions);
    for (OutgoingTransfers::Action& action : actions) {
      if (action.what == outgoing::kFinish) action.done(std::move(action.result));
      if (action.what == outgoing::kSendCancel && !lost_) {
        to_receiver_.push_back({.kind = Kind::kCancel, .transfer = action.transfer});
      }
      if (action.what == outgoing::kRevoke) revokes_.push_back(action.transfer);
      if (action.what == outgoing::kRelease) {
        Must(readable_.count(action.transfer) == 0, "what is released cannot be read");
        for (const ReadQueue::Read& read : out_) {
          Must(read.transfer != action.transfer, "nor is a READ of it out");
        }
        Scrub(action.message);
      }
    }
    return !actions.empty();
  }

  bool ActReceiver() {
    IncomingTransfers::Actions actions;
    receiver_.TakeActions(actions);
    for (IncomingTransfers::Action& action : actions) {
      const uint32_t id = action.transfer;
      if (action.what == incoming::kStartReads) reads_.Add(id, action.segments);
      if (action.what == incoming::kStopReads && reads_.Stop(id)) receiver_.Drained(id);
      if (action.what == incoming::kSendFin) {
        Must(!lost_ && answered_.insert(id).second, "each RTS is answered once");
        receiver_.FinPosted();
        to_sender_.push_back(id);
      }
      if (action.what == incoming::kTell || action.what == incoming::kDeliver) {
        Must(admitted_.erase(action.ticket) == 1, "each ends once");
      }
      if (action.what == incoming::kDeliver) CheckDelivered(action);
      if (action.what == incoming::kRelease || action.what == incoming::kDeliver) {
        for (const ReadQueue::Read& read : out_) {
          Must(read.transfer != id, "no READ into a sink that was let go is out");
        }
      }
    }
    return !actions.empty();
  }

  void CheckDelivered(const IncomingTransfers::Action& action) {
    ++delivered_;
    const Ticket sent = 2 * ticket_of_.at(action.ticket);
    const auto& [head, body, attachment] = action.message;
    Must(std::memcmp(body.data(), Contents(sent), body.size()) == 0, "the body is what was sent");
    Must(attachment.size() == kSmall &&
             std::memcmp(attachment.data(), Contents(sent + 1), kSmall) == 0,
         "the attachment is what was sent");
  }

  // Goes on until nothing happens any more.
  void Drain() {
    int rounds = 0;
    for (bool busy = true; busy;) {
      Must(++rounds < 10'000, "it comes to an end");
      busy = !built_.empty() || !to_receiver_.empty() || !to_sender_.empty() || !out_.empty() ||
             !revokes_.empty() || receiver_.WantsMemory() || !reads_.empty();
      Post();
      ReceiverHears();
      SenderHears();
      GiveMemory(true);
      Act();
      PostRead();
      CompleteRead();
      CompleteRevoke();
      Act();
    }
  }

  // The queue pair fails: READs that are out end in any way, and then it is destroyed.
  void Lose() {
    lost_ = true;
    sender_.Error(absl::UnavailableError("gone"));
    receiver_.Error();
    Act();
    while (!out_.empty()) {
      CompleteRead();
      Act();
    }
    // Too late, but it may still be tried.
    sender_.Withdraw(1, now_);
    receiver_.Abandon(1, absl::CancelledError("late"));
    Act();
    readable_.clear();
    revokes_.clear();
    for (ReadQueue::Read read; reads_.Next(read);) (void)reads_.Completed(read.transfer);
    sender_.Destroyed();
    receiver_.Destroyed();
    Act();
  }

  std::mt19937 random_;
  BufferPool& pool_;
  const uint32_t max_open_;
  OutgoingTransfers sender_;
  IncomingTransfers receiver_;
  ReadQueue reads_;
  TimePoint now_;
  bool lost_ = false;

  std::deque<std::pair<uint32_t, Ticket>> built_;  // whose RTS is not posted yet
  std::deque<Envelope> to_receiver_;
  std::deque<uint32_t> to_sender_;       // FINs
  std::vector<ReadQueue::Read> out_;     // READs
  std::deque<uint32_t> revokes_;         // not completed yet
  std::map<uint32_t, Ticket> readable_;  // transfer -> the Send's ticket
  std::map<Ticket, Ticket> ticket_of_;   // Admit's -> Send's
  std::set<Ticket> posted_, finished_, admitted_;
  std::set<uint32_t> answered_;
  Ticket began_ = 0;
  Ticket announced_ = 0;
  size_t delivered_ = 0;
};

TEST_CASE("100,000 histories of two sides") {
  BufferPool pool;
  size_t delivered = 0;
  for (uint32_t seed = 1; seed <= 100'000; ++seed) {
    INFO("seed=" << seed);
    World world(seed, pool);
    world.Run();
    delivered += world.delivered();
  }
  // They were not all cut short.
  CHECK(delivered > 100'000);
}

}  // namespace
}  // namespace farcall::rdma
