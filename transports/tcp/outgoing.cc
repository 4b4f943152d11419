#include "farcall/transports/tcp/outgoing.h"

#include <utility>

namespace farcall::tcp {

OutgoingStore::~OutgoingStore() {
  while (spare_ != nullptr) delete std::exchange(spare_, spare_->next);
}

Outgoing* OutgoingStore::Take() {
  if (spare_ == nullptr) return new Outgoing;
  --spares_;
  Outgoing* outgoing = std::exchange(spare_, spare_->next);
  outgoing->next = nullptr;
  return outgoing;
}

void OutgoingStore::Return(Outgoing* outgoing) {
  if (spares_ == kMaxSpareOutgoing) {
    delete outgoing;
    return;
  }
  // The memory goes back now, not when the record is used again.
  if (outgoing->message.head.size() > Head::kInlineBytes) outgoing->message.head = Head();
  outgoing->message.body.Reset();
  outgoing->message.attachment.Reset();
  outgoing->done = nullptr;
  outgoing->large = false;
  outgoing->withdrawn = false;
  outgoing->transfer = 0;
  outgoing->payload_sent = 0;
  outgoing->turn_bytes = 0;
  outgoing->status = absl::OkStatus();
  outgoing->sent = false;
  outgoing->next = spare_;
  spare_ = outgoing;
  ++spares_;
}

void OutgoingList::PushBack(Outgoing* outgoing) {
  outgoing->next = nullptr;
  outgoing->previous = back_;
  (back_ == nullptr ? front_ : back_->next) = outgoing;
  back_ = outgoing;
}

Outgoing* OutgoingList::PopFront() {
  Outgoing* outgoing = front_;
  if (outgoing != nullptr) Remove(outgoing);
  return outgoing;
}

void OutgoingList::Remove(Outgoing* outgoing) {
  (outgoing->previous == nullptr ? front_ : outgoing->previous->next) = outgoing->next;
  (outgoing->next == nullptr ? back_ : outgoing->next->previous) = outgoing->previous;
  outgoing->next = outgoing->previous = nullptr;
}

}  // namespace farcall::tcp
