#include "farcall/transports/loopback/connection.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/loopback/limits.h"

namespace farcall::loopback {

LoopbackConnection::LoopbackConnection(EventLoop& loop, EndOptions options,
                                       std::shared_ptr<Mailbox> mine,
                                       std::shared_ptr<Mailbox> theirs)
    : loop_(loop),
      options_(std::move(options)),
      mine_(std::move(mine)),
      theirs_(std::move(theirs)) {
  mine_->Attach(loop_, *this);
}

LoopbackConnection::~LoopbackConnection() {
  if (!closed_) theirs_->PutPeerGone();
  mine_->Detach();
  loop_.CancelEndOfTurn(flush_task_);
}

void LoopbackConnection::Start(Receiver& receiver) {
  assert(loop_.IsDriver() && receiver_ == nullptr);
  receiver_ = &receiver;
  mine_->Wake();
}

Ticket LoopbackConnection::Send(Message&& message, SendDone&& done) {
  assert(loop_.IsDriver());
  const Ticket ticket = ++last_sent_;
  if (absl::Status status = CheckRoomFor(message); !status.ok()) {
    EndSend(std::move(done), {std::move(status), /*sent=*/false, std::move(message)});
    return ticket;
  }
  Queued queued{.ticket = ticket,
                .head_bytes = message.head.size(),
                .bytes = message.head.size() + message.payload_bytes(),
                .large = IsLarge(message),
                .message = {},
                .done = std::move(done)};
  queued.message = std::move(message);
  ++counters_.queued_messages;
  counters_.queued_bytes += queued.bytes;
  if (queued.large) ++large_sends_;
  queue_.push_back(std::move(queued));
  loop_.RunAtEndOfTurn(flush_task_);
  return ticket;
}

absl::Status LoopbackConnection::CheckRoomFor(const Message& message) const {
  if (closed_ || peer_gone_) return PeerGone();
  if (message.head.size() > kMaxHeadBytes) {
    return absl::InvalidArgumentError(absl::StrCat(options_.peer_address, ": a head of ",
                                                   message.head.size(), " bytes; kMaxHeadBytes is ",
                                                   kMaxHeadBytes));
  }
  const TransportLimits& limits = options_.limits;
  const size_t bytes = message.head.size() + message.payload_bytes();
  if (counters_.queued_messages >= limits.max_queued_messages) {
    return absl::ResourceExhaustedError(absl::StrCat(
        options_.peer_address, ": ", limits.max_queued_messages,
        " messages wait to be sent (TransportLimits::max_queued_messages); the peer reads slowly"));
  }
  const uint64_t queued = counters_.queued_bytes;
  if (queued > 0 && queued + bytes > limits.max_queued_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        options_.peer_address, ": ", queued, " bytes wait to be sent, ", bytes, " more would pass ",
        limits.max_queued_bytes, " (TransportLimits::max_queued_bytes); the peer reads slowly"));
  }
  if (IsLarge(message) && large_sends_ >= limits.max_transfers) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options_.peer_address, ": ", large_sends_,
                     " large payloads are on their way (TransportLimits::max_transfers)"));
  }
  return absl::OkStatus();
}

void LoopbackConnection::Unqueue(size_t bytes, bool large) {
  --counters_.queued_messages;
  counters_.queued_bytes -= bytes;
  if (large) --large_sends_;
}

void LoopbackConnection::Flush() {
  size_t taken = 0;
  {
    Mailbox::Putting putting(*theirs_);
    while (taken < queue_.size() && putting.Put(queue_[taken].ticket, queue_[taken].message)) {
      ++taken;
    }
  }
  if (taken > 0) ++counters_.send_calls;
  for (; taken > 0; --taken) {
    Queued sent = std::move(queue_.front());
    queue_.pop_front();
    if (sent.large) {
      counters_.bytes_sent += sent.head_bytes;  // the rest with the receipt
      announced_.emplace(sent.ticket, Announced{sent.bytes, std::move(sent.done)});
      continue;
    }
    counters_.bytes_sent += sent.bytes;
    ++counters_.messages_sent;
    Unqueue(sent.bytes, /*large=*/false);
    EndSend(std::move(sent.done), {absl::OkStatus(), /*sent=*/true, {}});
  }
}

void LoopbackConnection::EndSend(SendDone done, SendResult result) {
  if (!done) return;
  ended_.push_back({std::move(done), std::move(result)});
  mine_->Wake();
}

void LoopbackConnection::OnReceipt(const Receipt& receipt) {
  const auto found = announced_.find(receipt.ticket);
  if (found == announced_.end()) return;  // withdrawn meanwhile
  counters_.bytes_sent += receipt.moved;
  ++counters_.messages_sent;
  Unqueue(found->second.bytes, /*large=*/true);
  EndSend(std::move(found->second.done), {absl::OkStatus(), /*sent=*/true, {}});
  announced_.erase(found);
}

void LoopbackConnection::Withdraw(Ticket ticket) {
  assert(loop_.IsDriver());
  const auto queued =
      std::lower_bound(queue_.begin(), queue_.end(), ticket,
                       [](const Queued& entry, Ticket wanted) { return entry.ticket < wanted; });
  if (queued != queue_.end() && queued->ticket == ticket) {
    Unqueue(queued->bytes, queued->large);
    EndSend(std::move(queued->done), {absl::CancelledError("withdrawn before it was sent"),
                                      /*sent=*/false, std::move(queued->message)});
    queue_.erase(queued);
    return;
  }
  const auto announced = announced_.find(ticket);
  if (announced == announced_.end()) return;
  theirs_->PutGivenUp(ticket);
  Unqueue(announced->second.bytes, /*large=*/true);
  EndSend(std::move(announced->second.done),
          {absl::CancelledError("withdrawn while its payload was on its way"), /*sent=*/true, {}});
  announced_.erase(announced);
}

void LoopbackConnection::Close(absl::Status status) {
  assert(loop_.IsDriver());
  if (closed_) return;
  Flush();
  Shut(std::move(status));
}

ConnectionInfo LoopbackConnection::info() const {
  return {.transport = "loopback",
          .peer_address = options_.peer_address,
          .local_address = options_.local_address,
          .counters = counters_.Read()};
}

void LoopbackConnection::OnMail() {
  const bool listens = receiver_ != nullptr || closed_;
  if (mine_->Take(listens, mail_)) theirs_->PutRoom();
  if (closed_) return FinishClosing();

  if (!mail_.letters.empty()) ++counters_.receive_calls;
  for (const Receipt& receipt : mail_.receipts) OnReceipt(receipt);
  if (mail_.peer_gone) {
    peer_gone_ = true;
    FailSends(PeerGone());
  }
  if (mail_.room) Flush();
  RunDones();
  if (receiver_ == nullptr) return;
  Deliver(mail_.letters);
  MoveOneChunk();
  TellAbandoned();
  if (peer_gone_ && !closed_) Shut(PeerGone());
  if (!transfers_.empty()) mine_->Wake();
}

void LoopbackConnection::FailSends(const absl::Status& status) {
  for (Queued& queued : queue_) {
    EndSend(std::move(queued.done), {status, /*sent=*/false, std::move(queued.message)});
  }
  for (auto& [ticket, announced] : announced_) {
    EndSend(std::move(announced.done), {status, /*sent=*/true, {}});
  }
  queue_.clear();
  announced_.clear();
  counters_.queued_messages = 0;
  counters_.queued_bytes = 0;
  large_sends_ = 0;
}

// Runs those that ended so far; what ends meanwhile has woken us for another turn.
void LoopbackConnection::RunDones() {
  ending_.swap(ended_);
  for (Ended& send : ending_) send.done(std::move(send.result));
  ending_.clear();
}

void LoopbackConnection::Shut(absl::Status status) {
  closed_ = true;
  close_status_ = std::move(status);
  FailSends(close_status_.ok() ? absl::CancelledError("the connection was closed") : close_status_);
  theirs_->PutPeerGone();
  mine_->Wake();
}

// A turn after Shut, and whenever something was sent later still.
void LoopbackConnection::FinishClosing() {
  mail_.letters.clear();
  transfers_.clear();
  abandoned_.clear();
  RunDones();
  if (receiver_ != nullptr) std::exchange(receiver_, nullptr)->OnClosed(close_status_);
}

absl::Status LoopbackConnection::PeerGone() const {
  return absl::UnavailableError(
      absl::StrCat(options_.peer_address, ": ",
                   closed_ ? "this connection is closed" : "the peer closed the connection"));
}

}  // namespace farcall::loopback
