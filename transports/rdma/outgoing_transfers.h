// OutgoingTransfers: the payloads that this side offers and the peer reads, from the RTS until
// nobody can touch them any more. Pure: it is told what happened and says what to do; the table of
// transfer.h says when.
//
// Not thread-safe: it belongs to the connection's driver.

#ifndef FARCALL_TRANSPORTS_RDMA_OUTGOING_TRANSFERS_H_
#define FARCALL_TRANSPORTS_RDMA_OUTGOING_TRANSFERS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/message.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/limits.h"
#include "farcall/transports/rdma/transfer.h"

namespace farcall::rdma {

class OutgoingTransfers {
 public:
  struct Limits {
    uint32_t max_open = kDefaultTransfers;  // the peer's Parameters::max_transfers
    uint64_t max_zombie_bytes = kMaxZombieBytes;
    Duration max_zombie_age = kMaxZombieAge;
  };

  // One thing to do, for the engine. `what` is one bit of outgoing::Action.
  struct Action {
    outgoing::Action what = outgoing::kFinish;
    uint32_t transfer = 0;
    SendDone done;      // kFinish: to be run with …
    SendResult result;  // … this
    Message message;    // kRelease: whose memory is free when this goes
  };
  using Actions = std::vector<Action>;

  // `count_from`: the number before that of the first transfer.
  explicit OutgoingTransfers(const Limits& limits, uint32_t count_from = 0)
      : limits_(limits), last_(count_from) {}

  // The peer takes one more. (And its number is free: not held since 2^32 transfers ago.)
  bool CanBegin() const { return open_ < limits_.max_open && !transfers_.contains(NextId()); }
  // Takes a message over (`ticket` is the Send's) and returns its transfer's number for the RTS.
  // Precondition: CanBegin().
  uint32_t Begin(Ticket ticket, Message message, SendDone done);
  // The message of a transfer that is not gone: what the RTS is made of.
  Message& message(uint32_t transfer) { return transfers_.find(transfer)->second.message; }

  // The RTS was posted. (A post that failed ends the connection: Error.)
  void Posted(uint32_t transfer);
  // A FIN arrived. INVALID_ARGUMENT: the peer answers what it was not offered, or twice.
  absl::Status Fin(uint32_t transfer);
  // As Connection::Withdraw. False: `ticket` is none of these.
  bool Withdraw(Ticket ticket, TimePoint now);
  // The device lets nobody read it any more. Ignored when the queue pair was in error meanwhile.
  void Revoked(uint32_t transfer);
  // The queue pair is in error, for the reason `status`. Once.
  void Error(const absl::Status& status);
  // It is destroyed. After Error; nothing is left.
  void Destroyed();

  // Not OK: what was given up and is still offered is too much or too old, and the connection shall
  // end. RESOURCE_EXHAUSTED or DEADLINE_EXCEEDED says what and how much. Now and then, and after
  // Withdraw.
  absl::Status CheckZombies(TimePoint now) const;

  // What is to be done, in order, since the last call. `actions` is overwritten; its capacity is
  // used again.
  void TakeActions(Actions& actions) {
    actions.clear();
    actions.swap(actions_);
  }

  bool has_actions() const { return !actions_.empty(); }
  uint32_t open() const { return open_; }            // RTS that may have no FIN yet
  size_t size() const { return transfers_.size(); }  // transfers whose memory is held
  uint64_t zombie_bytes() const { return zombie_bytes_; }

 private:
  using State = outgoing::State;
  using Event = outgoing::Event;

  struct Transfer {
    State state = State::kBuilt;
    Ticket ticket = 0;
    Message message;
    SendDone done;
    TimePoint given_up;  // kZombie
  };
  using Table = absl::node_hash_map<uint32_t, Transfer>;

  absl::Status Handle(Table::iterator at, Event event, const absl::Status& status);
  void Enter(Table::iterator at, State to);
  void Act(Table::iterator at, uint8_t actions, const absl::Status& status);
  void HandleAll(Event event, const absl::Status& status);
  static bool Open(State state);
  uint32_t NextId() const { return last_ + 1 == 0 ? 1 : last_ + 1; }

  const Limits limits_;
  uint32_t last_;
  uint32_t open_ = 0;
  Table transfers_;
  absl::flat_hash_map<Ticket, uint32_t> by_ticket_;  // those whose `done` has not run
  absl::btree_set<std::pair<TimePoint, uint32_t>> zombies_;
  uint64_t zombie_bytes_ = 0;
  Actions actions_;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_OUTGOING_TRANSFERS_H_
