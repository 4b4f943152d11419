// DeliveryOrder: small messages are delivered in the order of their heads, as rpc/transport.h
// promises, though some of them are read by READ and others were here at once. Pure.
//
// Only small messages come here (kSmallPayloadBytes); large ones are delivered when they are whole.
// As long as no small payload is being read, nothing waits and nothing is stored.
//
// Not thread-safe: it belongs to the connection's driver.

#ifndef FARCALL_TRANSPORTS_RDMA_DELIVERY_ORDER_H_
#define FARCALL_TRANSPORTS_RDMA_DELIVERY_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "farcall/rpc/message.h"
#include "farcall/rpc/transport.h"

namespace farcall::rdma {

class DeliveryOrder {
 public:
  // What waits may hold so much memory: a peer can make it wait by not letting us read.
  explicit DeliveryOrder(uint64_t max_held_bytes) : max_held_bytes_(max_held_bytes) {}

  // Nothing is expected: a message that is whole is delivered without coming here.
  bool idle() const { return waiting_.empty(); }

  // Tickets come in order, once each, to one of these two:
  // a payload is read, and Arrived or GiveUp will follow;
  void Expect(Ticket ticket);
  // a message is whole, in memory that may wait. False: too much waits, `message` is left as it is.
  bool Add(Ticket ticket, Message& message);

  // The payload of an expected message is here.
  void Arrived(Ticket ticket, Message message);
  // A message that was expected or waits will not be delivered. False: it is none of these.
  bool GiveUp(Ticket ticket);

  // The message to deliver now. False: none, or those before it are expected still.
  bool Next(Ticket& ticket, Message& message);

  uint64_t held_bytes() const { return held_bytes_; }

 private:
  enum class State : uint8_t { kExpected, kWhole, kGivenUp };
  struct Waiting {
    Ticket ticket = 0;
    State state = State::kExpected;
    Message message;

    uint64_t held_bytes() const { return sizeof(Waiting) + message.held_bytes(); }
  };

  Waiting* Find(Ticket ticket);

  const uint64_t max_held_bytes_;
  std::deque<Waiting> waiting_;  // by ticket; the first is not given up
  uint64_t held_bytes_ = 0;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_DELIVERY_ORDER_H_
