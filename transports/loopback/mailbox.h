// Mailbox: what lies between the two ends of a connection, waiting for one of them.
//
// The only state that two loops share. The peer puts things in from its own thread; the owner is
// woken by a task on its loop and takes everything out. Letters are bounded; the notes beside them
// are at most one for each letter that went the other way.

#ifndef FARCALL_TRANSPORTS_LOOPBACK_MAILBOX_H_
#define FARCALL_TRANSPORTS_LOOPBACK_MAILBOX_H_

#include <memory>
#include <vector>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/message.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/transport.h"

namespace farcall::loopback {

// The end whose mailbox it is.
class MailboxOwner {
 public:
  virtual ~MailboxOwner() = default;
  // On the owner's loop, once after one or more wakes.
  virtual void OnMail() = 0;
};

// A message, or word that its sender gave a large one up.
struct Letter {
  Ticket ticket = 0;  // the sender's
  bool given_up = false;
  Message message;
};

// The receiver needs no more of a large message: it is whole, refused or abandoned.
struct Receipt {
  Ticket ticket = 0;  // the sender's, who gets the note
  size_t moved = 0;   // bytes of payload
};

struct Mail {
  std::vector<Letter> letters;
  std::vector<Receipt> receipts;
  bool room = false;       // the peer's mailbox was full and takes letters again
  bool peer_gone = false;  // nothing follows these letters
};

// Made by std::make_shared; outlives its owner while it is queued on the loop.
class Mailbox final : public LoopTask, public std::enable_shared_from_this<Mailbox> {
 public:
  // ---- the peer, on any thread ----

  // While one exists the owner takes nothing: it finds all of its letters or none of them. No call
  // of another mailbox meanwhile.
  class Putting {
   public:
    explicit Putting(Mailbox& box) : box_(box), lock_(box.mutex_) {}
    // Moves `message` in and wakes the owner. False, with the message untouched, when the box is
    // full: the owner's Take will say so. An owner that is gone takes anything, to nowhere.
    bool Put(Ticket ticket, Message& message);

   private:
    Mailbox& box_;
    std::vector<Message> dropped_;  // freed after the lock
    MutexLock lock_;
  };
  void PutGivenUp(Ticket ticket);
  void PutReceipt(Receipt receipt);
  void PutRoom();
  void PutPeerGone();

  // ---- the owner, on its loop's driver ----

  // `loop` outlives the owner, who calls Detach before it goes.
  void Attach(EventLoop& loop, MailboxOwner& owner);
  void Detach();
  // OnMail will run in a coming turn.
  void Wake();
  // Replaces `mail` by what is there; letters stay behind unless `with_letters`. True when the
  // peer waits for room, which there is now.
  bool Take(bool with_letters, Mail& mail);

  void Run() override;

 private:
  void Drop() override;
  void WakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MailboxOwner* owner_ = nullptr;  // touched on the loop only

  Mutex mutex_;
  EventLoop* loop_ ABSL_GUARDED_BY(mutex_) = nullptr;      // nullptr: not attached yet, or detached
  std::shared_ptr<Mailbox> self_ ABSL_GUARDED_BY(mutex_);  // while queued
  Mail mail_ ABSL_GUARDED_BY(mutex_);
  size_t letter_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // small payloads and heads in mail_.letters
  bool sender_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool detached_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farcall::loopback

#endif  // FARCALL_TRANSPORTS_LOOPBACK_MAILBOX_H_
