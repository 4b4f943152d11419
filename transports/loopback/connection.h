// One end of a loopback connection.
//
// Sending: Send queues; at the end of the turn a flush puts the queue into the peer's mailbox as
// far as it takes it. Small messages are done then, large ones when the peer's receipt comes back.
// Receiving: OnMail takes the mailbox's letters to the receiver, then moves one chunk of one large
// payload, round robin. Every callback runs from OnMail, nowhere else.
//
// Touched on its loop's driver only; what two threads share is in the mailboxes.

#ifndef FARCALL_TRANSPORTS_LOOPBACK_CONNECTION_H_
#define FARCALL_TRANSPORTS_LOOPBACK_CONNECTION_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/loopback/incoming.h"
#include "farcall/transports/loopback/mailbox.h"

namespace farcall::loopback {

// What the two ends do not share.
struct EndOptions {
  std::shared_ptr<BufferPool> pool;
  TransportLimits limits;
  std::string local_address;
  std::string peer_address;
};

class LoopbackConnection final : public Connection, private MailboxOwner {
 public:
  // `mine` is the peer's `theirs`. Made on the loop.
  LoopbackConnection(EventLoop& loop, EndOptions options, std::shared_ptr<Mailbox> mine,
                     std::shared_ptr<Mailbox> theirs);
  ~LoopbackConnection() override;

  const std::shared_ptr<BufferPool>& pool() const override { return options_.pool; }
  void Start(Receiver& receiver) override;
  Ticket Send(Message&& message, SendDone&& done) override;
  void Withdraw(Ticket ticket) override;
  void Abandon(Ticket ticket, absl::Status status) override;
  void Close(absl::Status status) override;
  ConnectionInfo info() const override;

 private:
  // A message that still waits for room in the peer's mailbox.
  struct Queued {
    Ticket ticket = 0;
    size_t head_bytes = 0;
    size_t bytes = 0;  // with the head
    bool large = false;
    Message message;
    SendDone done;
  };
  // A large message that the peer has and sends no receipt for yet.
  struct Announced {
    size_t bytes = 0;
    SendDone done;
  };
  struct Ended {
    SendDone done;
    SendResult result;
  };
  struct Abandoned {
    Ticket ticket = 0;
    absl::Status status;
  };

  // One flush at the end of a turn, however many messages were sent in it.
  class FlushTask final : public LoopTask {
   public:
    explicit FlushTask(LoopbackConnection& connection) : connection_(connection) {}
    void Run() override { connection_.Flush(); }

   private:
    LoopbackConnection& connection_;
  };

  void OnMail() override;

  // ---- sending (connection.cc) ----
  absl::Status CheckRoomFor(const Message& message) const;
  void Unqueue(size_t bytes, bool large);
  void Flush();
  void EndSend(SendDone done, SendResult result);
  void OnReceipt(const Receipt& receipt);
  void FailSends(const absl::Status& status);
  void RunDones();

  // ---- receiving (receiving.cc) ----
  void Deliver(std::vector<Letter>& letters);
  void Receive(Letter letter);
  void OnGivenUp(Ticket senders);
  void MoveOneChunk();
  void DeliverWhole(Incoming incoming);
  void TellAbandoned();

  // ---- the end (connection.cc) ----
  void Shut(absl::Status status);
  void FinishClosing();
  absl::Status PeerGone() const;

  // Constant after construction.
  EventLoop& loop_;
  const EndOptions options_;
  const std::shared_ptr<Mailbox> mine_;
  const std::shared_ptr<Mailbox> theirs_;

  Receiver* receiver_ = nullptr;  // nullptr: not started, or OnClosed was delivered
  Mail mail_;                     // of this turn; kept for its capacity
  ConnectionTallies counters_;

  Ticket last_sent_ = 0;
  std::deque<Queued> queue_;  // in the order of tickets
  FlushTask flush_task_{*this};
  std::map<Ticket, Announced> announced_;
  size_t large_sends_ = 0;     // of queue_ and announced_
  std::vector<Ended> ended_;   // their `done` is due in the next turn
  std::vector<Ended> ending_;  // of this turn; kept for its capacity

  Ticket last_admitted_ = 0;
  std::deque<Incoming> transfers_;  // large payloads on their way, the next to move first
  std::vector<Abandoned> abandoned_;

  bool peer_gone_ = false;  // nobody takes what is sent; letters may still be in the mailbox
  bool closed_ = false;
  absl::Status close_status_;
};

}  // namespace farcall::loopback

#endif  // FARCALL_TRANSPORTS_LOOPBACK_CONNECTION_H_
