#include "farcall/transports/rdma/delivery_order.h"

#include <algorithm>
#include <utility>

namespace farcall::rdma {

void DeliveryOrder::Expect(Ticket ticket) {
  Waiting& waiting = waiting_.emplace_back();
  waiting.ticket = ticket;
  held_bytes_ += waiting.held_bytes();
}

bool DeliveryOrder::Add(Ticket ticket, Message& message) {
  const uint64_t bytes = sizeof(Waiting) + message.held_bytes();
  if (bytes > max_held_bytes_ - std::min(max_held_bytes_, held_bytes_)) return false;
  Waiting& waiting = waiting_.emplace_back();
  waiting.ticket = ticket;
  waiting.state = State::kWhole;
  waiting.message = std::move(message);
  held_bytes_ += bytes;
  return true;
}

// A message that is read has its memory counted by IncomingTransfers until it is here; from now on
// it waits like the others.
void DeliveryOrder::Arrived(Ticket ticket, Message message) {
  Waiting* const waiting = Find(ticket);
  waiting->state = State::kWhole;
  waiting->message = std::move(message);
  held_bytes_ += waiting->message.held_bytes();
}

bool DeliveryOrder::GiveUp(Ticket ticket) {
  Waiting* const waiting = Find(ticket);
  if (waiting == nullptr || waiting->state == State::kGivenUp) return false;
  held_bytes_ -= waiting->message.held_bytes();
  waiting->state = State::kGivenUp;
  waiting->message = Message();
  while (!waiting_.empty() && waiting_.front().state == State::kGivenUp) {
    held_bytes_ -= waiting_.front().held_bytes();
    waiting_.pop_front();
  }
  return true;
}

bool DeliveryOrder::Next(Ticket& ticket, Message& message) {
  if (waiting_.empty() || waiting_.front().state != State::kWhole) return false;
  do {
    Waiting& first = waiting_.front();
    held_bytes_ -= first.held_bytes();
    if (first.state == State::kWhole) {
      ticket = first.ticket;
      message = std::move(first.message);
    }
    waiting_.pop_front();
  } while (!waiting_.empty() && waiting_.front().state == State::kGivenUp);
  return true;
}

DeliveryOrder::Waiting* DeliveryOrder::Find(Ticket ticket) {
  const auto at = std::lower_bound(
      waiting_.begin(), waiting_.end(), ticket,
      [](const Waiting& waiting, Ticket wanted) { return waiting.ticket < wanted; });
  return at != waiting_.end() && at->ticket == ticket ? &*at : nullptr;
}

}  // namespace farcall::rdma
