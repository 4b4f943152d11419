// SendQueue: what one connection still has to send, and in which order it goes to the wire. Pure:
// it hands out regions of memory and is told how many bytes of them the kernel took.
//
// Order: the record that was cut by a full socket; control records; messages in the order of Push
// (a large one is a BEGIN here); then chunks, the transfers taking turns. Since new messages are
// looked at before every chunk, a small one waits for at most one chunk, which is short while small
// ones are about; and a chunk waits for no more than a few batches full of small messages.
//
// Not thread-safe: it belongs to the connection's driver.

#ifndef FARCALL_TRANSPORTS_TCP_SEND_QUEUE_H_
#define FARCALL_TRANSPORTS_TCP_SEND_QUEUE_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "farcall/rpc/message.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/tcp/limits.h"
#include "farcall/transports/tcp/outgoing.h"
#include "farcall/transports/tcp/prefix.h"

namespace farcall::tcp {

// What goes to the kernel in one call. Only its regions concern the caller; a loop needs one.
struct SendBatch {
  std::array<iovec, kMaxGather> regions;
  size_t count = 0;          // regions in use
  size_t bytes = 0;          // their sum
  size_t small_payload = 0;  // of it, bodies and attachments of small messages

  // The records that the regions make up, in order.
  enum class Kind : uint8_t { kNone, kControl, kMessage, kChunk };
  struct Record {
    Kind kind = Kind::kNone;
    Outgoing* outgoing = nullptr;
    size_t bytes = 0;  // of the whole record, also where a part of it left before
  };
  std::array<Record, kMaxGather> records;
  size_t planned = 0;  // records in use
};

class SendQueue {
 public:
  // `store` outlives the queue. The preamble is queued already.
  SendQueue(OutgoingStore& store, const TransportLimits& limits);
  ~SendQueue();  // drops everything; nobody is told
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // Queues a message. One that cannot be queued (queue full, head too large) is finished at once,
  // unsent.
  Ticket Push(Message message, SendDone done);
  // Finishes a message with `status`, unsent, without queueing it.
  Ticket Reject(Message message, SendDone done, absl::Status status);
  // Finishes a message as CANCELLED if it still waits (unsent) or is under way (sent).
  void Withdraw(Ticket ticket);

  // Tells the peer to stop a transfer of its own; taken back by DropAbandon when that ended
  // meanwhile.
  void PushAbandon(uint32_t transfer) { abandons_.insert(transfer); }
  void DropAbandon(uint32_t transfer) { abandons_.erase(transfer); }
  // The peer wants no more of our `transfer`: it finishes as OK, sent. INVALID_ARGUMENT: no such
  // transfer ever began.
  absl::Status PeerAbandoned(uint32_t transfer);

  // Fills `batch` with what goes next; its count is 0 when there is nothing. It is valid until
  // another member is called.
  void Gather(SendBatch& batch);
  // The kernel took the first `bytes` of the batch that was gathered last.
  void Written(const SendBatch& batch, size_t bytes);

  // Finishes everything with `status`, unsent where no byte of it left; drops the rest.
  void FailAll(const absl::Status& status);
  // What finished since the last call, in that order. The caller runs each done and gives the
  // record back to the store.
  OutgoingList TakeFinished() { return std::exchange(finished_, {}); }
  bool has_finished() const { return !finished_.empty(); }

  // Nothing waits for the wire.
  bool empty() const {
    return queued_messages_ == 0 && control_.empty() && abandons_.empty() &&
           cut_.kind == SendBatch::Kind::kNone;
  }
  size_t queued_messages() const { return queued_messages_; }
  // The memory that they hold: a peer that does not read can make no more of it wait than
  // max_queued_bytes says.
  size_t queued_bytes() const { return small_bytes_ + large_bytes_; }
  uint64_t messages_sent() const { return messages_sent_; }
  uint64_t bytes_sent() const { return bytes_sent_; }  // heads and payload

 private:
  using Kind = SendBatch::Kind;
  using Record = SendBatch::Record;
  struct Control {
    PrefixBytes bytes;
    size_t size = 0;
  };
  struct Waiting {
    Ticket ticket = 0;
    Outgoing* outgoing = nullptr;  // nullptr: withdrawn
  };
  class Planner;

  absl::Status CheckRoom(const Message& message) const;
  void PushControl(RecordKind kind, uint32_t transfer);
  void OfferAbandons();
  void CompleteMessage(Outgoing* outgoing);
  void CompleteChunk(Outgoing* outgoing);
  void Finish(Outgoing* outgoing, absl::Status status, bool sent);
  void FinishEarly(Outgoing* outgoing, absl::Status status);
  void StopTransfer(Outgoing* outgoing, absl::Status status);
  void Leave(const Outgoing& outgoing);

  Waiting& Slot(uint64_t index) { return waiting_[index & (waiting_.size() - 1)]; }
  Waiting* Find(Ticket ticket);
  void TrimWaiting();
  void GrowWaiting();

  OutgoingStore& store_;
  const TransportLimits limits_;
  Ticket last_ticket_ = 0;

  // Messages of which no record left whole, in order of their tickets: a ring, entries
  // [front_, back_) modulo its size, a power of two.
  std::vector<Waiting> waiting_;
  uint64_t front_ = 0;
  uint64_t back_ = 0;

  std::deque<Control> control_;  // go next
  // The peer's transfers that it shall stop. Apart from control_ until they are offered to the
  // kernel, so that one is taken back without a search.
  absl::btree_set<uint32_t> abandons_;
  OutgoingList transfers_;  // BEGIN is out; the front has the next turn
  absl::flat_hash_map<uint32_t, Outgoing*> by_transfer_;  // those of transfers_
  OutgoingList finished_;

  Record cut_;              // the record that the kernel took only a part of
  size_t cut_written_ = 0;  // bytes of it that left

  uint64_t begun_ = 0;                        // transfers whose BEGIN left whole
  uint64_t chunks_since_small_ = kCalmAfter;  // bytes that left since a small message came
  int batches_without_chunk_ = 0;             // while there are transfers
  size_t large_messages_ = 0;                 // queued or under way
  Tally queued_messages_;                     // as are the next four, read by any thread
  // Each may reach max_queued_bytes: a large payload on its way leaves the small messages their
  // room.
  Tally small_bytes_;
  Tally large_bytes_;
  Tally messages_sent_;
  Tally bytes_sent_;
};

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_SEND_QUEUE_H_
