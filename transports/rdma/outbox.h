// Outbox: the messages of a connection that wait to leave, in the order of their Send, and those
// whose `done` is due. Pure.
//
// Not thread-safe: it belongs to the connection's driver; any thread may read the tallies.

#ifndef FARCALL_TRANSPORTS_RDMA_OUTBOX_H_
#define FARCALL_TRANSPORTS_RDMA_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "farcall/rpc/tally.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/fifo.h"

namespace farcall::rdma {

class Outbox {
 public:
  struct Ended {
    SendDone done;
    SendResult result;
  };
  // What a message counts for while it waits here, or is offered.
  struct Charge {
    uint64_t bytes = 0;
    bool large = false;
  };
  struct Item {
    Ticket ticket = 0;
    bool withdrawn = false;  // it ended: nothing is left of it
    Charge charge;
    Message message;
    SendDone done;
  };

  explicit Outbox(const TransportLimits& limits) : limits_(limits) {}

  // Contract's Send. A message that does not fit has ended.
  Ticket Push(Message&& message, SendDone&& done);
  // One that did not wait has left: it has a ticket that nobody needs.
  void SkipTicket() { ++last_ticket_; }
  // Ends a message unsent.
  Ticket Reject(Message&& message, SendDone&& done, absl::Status status);
  // Contract's Withdraw. False: it does not wait here.
  bool Withdraw(Ticket ticket);

  // The message to leave next; nullptr: none.
  Item* Front();
  // Takes it out; it stays charged until Release. Its `done` was moved from, and of its message
  // what is still to be used.
  void DropFront() {
    Message& message = waiting_.front().message;
    message.body.Reset();
    message.attachment.Reset();
    if (message.head.spilled_bytes() > 0) message.head = Head();
    waiting_.Drop();
  }
  void Release(Charge charge);

  // The message has left.
  void EndSent(SendDone&& done) {
    if (!done) return;
    Ended& ended = ended_.emplace_back();
    ended.done = std::move(done);
    ended.result.sent = true;
  }
  // It has not, or nobody knows.
  void End(SendDone&& done, SendResult&& result) {
    if (done) ended_.push_back({std::move(done), std::move(result)});
  }
  // Ends all that wait.
  void FailAll(const absl::Status& status);
  bool has_ended() const { return !ended_.empty(); }
  // Gives `ended` what has ended since the last call; its capacity is used again.
  void TakeEnded(std::vector<Ended>& ended) {
    ended.clear();
    ended.swap(ended_);
  }

  // Any thread.
  uint64_t queued_messages() const { return messages_; }
  uint64_t queued_bytes() const { return small_bytes_ + large_bytes_; }

 private:
  absl::Status CheckRoom(const Message& message, Charge charge) const;

  const TransportLimits limits_;
  Ticket last_ticket_ = 0;
  Fifo<Item> waiting_;
  std::vector<Ended> ended_;
  Tally messages_, small_bytes_, large_bytes_;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_OUTBOX_H_
