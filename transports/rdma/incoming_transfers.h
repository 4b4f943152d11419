// IncomingTransfers: the payloads that the peer offers and this side reads, each from its RTS to
// the one end that it has: delivered, or given up; and always answered by one FIN while the
// connection lives. Pure: it is told what happened and says what to do; the table of transfer.h
// says when.
//
// Memory to receive into is taken when a payload is about to be read: small ones get it at once or
// are given up, for later small messages wait for them; large ones wait in a queue, for their turn
// (ReadQueue::MayBegin) and, a bounded time, for memory.
//
// Not thread-safe: it belongs to the connection's driver.

#ifndef FARCALL_TRANSPORTS_RDMA_INCOMING_TRANSFERS_H_
#define FARCALL_TRANSPORTS_RDMA_INCOMING_TRANSFERS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/message.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/envelope.h"
#include "farcall/transports/rdma/limits.h"
#include "farcall/transports/rdma/read_queue.h"
#include "farcall/transports/rdma/transfer.h"

namespace farcall::rdma {

class IncomingTransfers {
 public:
  struct Limits {
    uint32_t max_open = kDefaultTransfers;  // this side's Parameters::max_transfers
    uint64_t max_announced_bytes = TransportLimits().max_announced_bytes;
    Duration max_memory_wait = kMaxMemoryWait;
  };

  // One thing to do, for the engine. `what` is one bit of incoming::Action.
  struct Action {
    incoming::Action what = incoming::kSendFin;
    uint32_t transfer = 0;
    absl::Status status;    // kSendFin: its code; kTell: why
    Ticket ticket = 0;      // kDeliver, kTell
    Message message;        // kDeliver; kRelease: whose memory is free when this goes
    ReadSegments segments;  // kStartReads
  };
  using Actions = std::vector<Action>;

  // `count_from`: as the peer's OutgoingTransfers.
  explicit IncomingTransfers(const Limits& limits, uint32_t count_from = 0)
      : limits_(limits), last_(count_from) {}

  // An RTS arrived; one of the next two follows at once. INVALID_ARGUMENT: its number is out of
  // order, or more are unanswered than this side said it takes.
  absl::Status Announce(const Envelope& rts);
  // The receiver does not want it: it costs no memory and no READ.
  void Refuse(uint32_t transfer, const absl::Status& status);
  // It does. `message` has the head, and the receiver's own memory for the attachment if it gave
  // some. A payload beyond max_announced_bytes together with the others is given up.
  void Accept(const Envelope& rts, Ticket ticket, Message message, TimePoint now);

  // The transfer that gets memory next: where `message` has none yet for a part with bytes. Answer
  // by Memory or NoMemory, and ask again unless that says false.
  struct Wanted {
    uint32_t transfer = 0;
    MessageSizes sizes;
    Message* message = nullptr;  // valid until the answer
  };
  std::optional<Wanted> WantsMemory();
  // `message` of the one that was asked for has it all now.
  void Memory(uint32_t transfer);
  // There was none for the one that was asked for: a small one is given up, a large one waits.
  // False: asking again helps only when memory came back.
  bool NoMemory(uint32_t transfer, TimePoint now);
  // Gives those up that have waited too long while there was no memory. Now and then, while some
  // are starved: a transfer that waits for its turn alone does so for as long as it takes.
  void ExpireWaiting(TimePoint now);
  bool starved() const { return starved_since_.has_value(); }

  // As Connection::Abandon. False: `ticket` is none of these.
  bool Abandon(Ticket ticket, const absl::Status& status);
  // A CANCEL arrived. INVALID_ARGUMENT: for a transfer that never was.
  absl::Status Cancel(uint32_t transfer);
  // What ReadQueue said of it. Ignored when the queue pair was in error before: Error comes before
  // the completions that say so are counted.
  void Arrived(uint32_t transfer);
  void Drained(uint32_t transfer);
  // The FIN of a transfer was posted.
  void FinPosted() { --unanswered_; }
  // The queue pair is in error: a READ failed, or anything else. Once. What is unfinished is told
  // of by OnClosed.
  void Error();
  // It is destroyed. After Error; nothing is left.
  void Destroyed();

  // As OutgoingTransfers'.
  void TakeActions(Actions& actions) {
    actions.clear();
    actions.swap(actions_);
  }

  // Some want memory.
  bool waiting() const { return !small_waiting_.empty() || !large_waiting_.empty(); }
  bool has_actions() const { return !actions_.empty(); }
  size_t size() const { return transfers_.size(); }        // transfers whose memory is held
  uint32_t unanswered() const { return unanswered_; }      // RTS without a FIN
  uint64_t announced_bytes() const { return announced_; }  // of them, payload

 private:
  using State = incoming::State;
  using Event = incoming::Event;

  struct Transfer {
    State state = State::kWaiting;
    Ticket ticket = 0;
    Message message;
    MessageSizes sizes;
    Region body, attachment;
    uint64_t counted = 0;  // of announced_
    TimePoint since;       // kWaiting
    absl::Status reason;   // kStopping: for the FIN

    bool small() const { return sizes.body + sizes.attachment <= kSmallPayloadBytes; }
  };
  using Table = absl::node_hash_map<uint32_t, Transfer>;

  bool After(uint32_t transfer) const;  // last_, modulo 2^32
  void Handle(Table::iterator at, Event event, const absl::Status& status);
  void Enter(Table::iterator at, State to);
  void Act(Table::iterator at, uint8_t actions, const absl::Status& status);
  void HandleAll(Event event);
  Action& Push(incoming::Action what, uint32_t transfer);
  ReadSegments Segments(Transfer& transfer);

  const Limits limits_;
  uint32_t last_;
  uint32_t unanswered_ = 0;
  uint64_t announced_ = 0;
  Table transfers_;
  absl::flat_hash_map<Ticket, uint32_t> by_ticket_;  // those not told of yet
  // Those that want memory, in order of their tickets.
  absl::btree_set<std::pair<Ticket, uint32_t>> small_waiting_, large_waiting_;
  std::optional<TimePoint> starved_since_;  // there is no memory for large ones
  Actions actions_;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_INCOMING_TRANSFERS_H_
