#include "farcall/transports/rdma/outbox.h"

#include "absl/strings/str_cat.h"

namespace farcall::rdma {

// Small ones and large ones each have the bytes: a large message that the peer does not read leaves
// room for the small ones.
absl::Status Outbox::CheckRoom(const Message& message, Charge charge) const {
  if (message.head.size() > kMaxHeadBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message's head has at most ", kMaxHeadBytes,
                                                   " bytes, not ", message.head.size()));
  }
  if (messages_ >= limits_.max_queued_messages) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "too many messages wait to be sent: max_queued_messages is ", limits_.max_queued_messages));
  }
  const uint64_t queued = charge.large ? large_bytes_ : small_bytes_;
  if (queued != 0 &&
      (queued > limits_.max_queued_bytes || charge.bytes > limits_.max_queued_bytes - queued)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too many bytes wait to be sent: ", queued, " and ", charge.bytes,
                     " more, and max_queued_bytes is ", limits_.max_queued_bytes));
  }
  return absl::OkStatus();
}

Ticket Outbox::Push(Message&& message, SendDone&& done) {
  const Charge charge{message.held_bytes(), message.payload_bytes() > kSmallPayloadBytes};
  absl::Status room = CheckRoom(message, charge);
  if (!room.ok()) return Reject(std::move(message), std::move(done), std::move(room));
  ++messages_;
  (charge.large ? large_bytes_ : small_bytes_) += charge.bytes;
  Item& item = waiting_.Add();
  item.ticket = ++last_ticket_;
  item.withdrawn = false;
  item.charge = charge;
  item.message = std::move(message);
  item.done = std::move(done);
  return last_ticket_;
}

Ticket Outbox::Reject(Message&& message, SendDone&& done, absl::Status status) {
  End(std::move(done), {std::move(status), false, std::move(message)});
  return ++last_ticket_;
}

bool Outbox::Withdraw(Ticket ticket) {
  // By halves, for tickets count up.
  size_t low = 0, high = waiting_.size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (waiting_[middle].ticket < ticket) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == waiting_.size() || waiting_[low].ticket != ticket || waiting_[low].withdrawn) {
    return false;
  }
  Item& item = waiting_[low];
  Release(item.charge);
  item.withdrawn = true;
  item.copy.to.Reset();
  End(std::move(item.done),
      {absl::CancelledError("the message was withdrawn"), false, std::move(item.message)});
  return true;
}

Outbox::Item* Outbox::Front() {
  while (!waiting_.empty() && waiting_.front().withdrawn) waiting_.Drop();
  return waiting_.empty() ? nullptr : &waiting_.front();
}

void Outbox::Release(Charge charge) {
  --messages_;
  (charge.large ? large_bytes_ : small_bytes_) -= charge.bytes;
}

void Outbox::FailAll(const absl::Status& status) {
  while (Item* const item = Front()) {
    Release(item->charge);
    item->copy.to.Reset();
    End(std::move(item->done), {status, false, std::move(item->message)});
    waiting_.Drop();
  }
}

}  // namespace farcall::rdma
