#include "farcall/transports/loopback/mailbox.h"

#include <utility>

#include "farcall/transports/loopback/limits.h"

namespace farcall::loopback {

// The analysis does not see that lock_ is held.
bool Mailbox::Putting::Put(Ticket ticket, Message& message) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (box_.detached_) {
    dropped_.push_back(std::move(message));
    return true;
  }
  if (box_.letter_bytes_ >= kWireBytes || box_.mail_.letters.size() >= kWireMessages) {
    box_.sender_waits_ = true;
    return false;
  }
  // A large payload stays on its sender's account until its receipt.
  box_.letter_bytes_ += message.head.size() + (IsLarge(message) ? 0 : message.payload_bytes());
  box_.mail_.letters.push_back({.ticket = ticket, .message = std::move(message)});
  box_.WakeLocked();
  return true;
}

void Mailbox::PutGivenUp(Ticket ticket) {
  MutexLock lock(mutex_);
  if (detached_) return;
  mail_.letters.push_back({.ticket = ticket, .given_up = true, .message = {}});
  WakeLocked();
}

void Mailbox::PutReceipt(Receipt receipt) {
  MutexLock lock(mutex_);
  if (detached_) return;
  mail_.receipts.push_back(receipt);
  WakeLocked();
}

void Mailbox::PutRoom() {
  MutexLock lock(mutex_);
  mail_.room = true;
  WakeLocked();
}

void Mailbox::PutPeerGone() {
  MutexLock lock(mutex_);
  mail_.peer_gone = true;
  WakeLocked();
}

void Mailbox::Attach(EventLoop& loop, MailboxOwner& owner) {
  owner_ = &owner;
  MutexLock lock(mutex_);
  loop_ = &loop;
  WakeLocked();  // the peer may have been quicker
}

void Mailbox::Detach() {
  owner_ = nullptr;
  Mail dropped;  // freed after the lock: a Buffer's release may be anybody's code
  MutexLock lock(mutex_);
  loop_ = nullptr;
  detached_ = true;
  std::swap(dropped, mail_);
}

void Mailbox::Wake() {
  MutexLock lock(mutex_);
  WakeLocked();
}

bool Mailbox::Take(bool with_letters, Mail& mail) {
  mail.letters.clear();
  mail.receipts.clear();
  MutexLock lock(mutex_);
  std::swap(mail.receipts, mail_.receipts);
  mail.room = std::exchange(mail_.room, false);
  mail.peer_gone = std::exchange(mail_.peer_gone, false);
  if (!with_letters) return false;
  std::swap(mail.letters, mail_.letters);
  letter_bytes_ = 0;
  return std::exchange(sender_waits_, false);
}

void Mailbox::WakeLocked() {
  if (loop_ == nullptr || self_ != nullptr) return;
  self_ = shared_from_this();
  loop_->Submit(*this);
}

void Mailbox::Run() {
  std::shared_ptr<Mailbox> self;
  {
    MutexLock lock(mutex_);
    self = std::move(self_);
  }
  if (owner_ != nullptr) owner_->OnMail();
}

void Mailbox::Drop() {
  std::shared_ptr<Mailbox> self;  // freed after the lock
  MutexLock lock(mutex_);
  loop_ = nullptr;
  self = std::move(self_);
}

}  // namespace farcall::loopback
