// Incoming: an admitted message whose payload moves from its sender's memory to the receiver's.
//
// By default the sender's buffers are handed over and moving is a matter of counting. Where the
// receiver gave a buffer of its own, or the sender's memory is not aligned as the contract wants,
// the bytes are copied, a chunk at a time.

#ifndef FARCALL_TRANSPORTS_LOOPBACK_INCOMING_H_
#define FARCALL_TRANSPORTS_LOOPBACK_INCOMING_H_

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/transport.h"

namespace farcall::loopback {

class Incoming {
 public:
  Incoming(Ticket ticket, Ticket senders, Message message)
      : ticket_(ticket), senders_(senders), message_(std::move(message)) {}

  Ticket ticket() const { return ticket_; }    // of Admit
  Ticket senders() const { return senders_; }  // of Send
  size_t moved() const { return moved_; }
  bool whole() const { return moved_ == message_.payload_bytes(); }

  // Decides where the payload goes: `attachment` is the receiver's, or absent; memory for what has
  // to be copied besides comes from `pool`.
  absl::Status Aim(Buffer attachment, BufferPool& pool);

  // Moves up to `bytes` more of the payload; returns how many of them were copied.
  size_t Move(size_t bytes);

  // The message, once it is whole.
  Message Take();

 private:
  Ticket ticket_;
  Ticket senders_;
  Message message_;
  Buffer body_target_;  // absent: the sender's buffer is handed over
  Buffer attachment_target_;
  size_t moved_ = 0;  // bytes of body, then attachment
};

}  // namespace farcall::loopback

#endif  // FARCALL_TRANSPORTS_LOOPBACK_INCOMING_H_
