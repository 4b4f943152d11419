// The receive queue of a queue pair, and what it tells the peer.

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/softnic/queue_pair.h"

namespace farcall::softnic {

using rdma::CompletionStatus;
using rdma::QueuePairState;
using rdma::ReceiveRequest;

absl::Status SoftQueuePair::PostReceive(std::span<const ReceiveRequest> requests, size_t& posted) {
  posted = 0;
  absl::Status status = Usable();
  if (!status.ok()) return status;
  for (const ReceiveRequest& request : requests) {
    if (receive_posted_ - receive_released_ == receive_depth_) {
      status = absl::ResourceExhaustedError(
          absl::StrCat("softnic: the receive queue is full: ", receive_depth_, " requests"));
      break;
    }
    receives_[receive_posted_++ & (receives_.size() - 1)] = request;
    ++posted;
    if (state_ == QueuePairState::kError) CompleteReceive(CompletionStatus::kFlushed, 0);
  }
  // A message may have waited for just this, with everybody asleep.
  if (waiting_for_receive_ && state_ == QueuePairState::kReadyToSend) Receive(kMaxMessagesPerPoll);
  return status;
}

// Takes messages from the ring. True: there were some.
bool SoftQueuePair::Receive(uint32_t limit) {
  bool received = false;
  while (limit-- != 0 && taken_flags_ == 0 && inbound_.Ready()) {
    const Inbound::Message message = inbound_.Peek();
    if (!outbound_.OnTaken(message.taken)) {
      Violated("it took messages that were never sent");
      return received;
    }
    if (receive_taken_ == receive_posted_ && MayWaitForReceive()) return received;
    if (taken_flags_ != 0 || !Deliver(message)) return received;
    touched_ = received = true;
  }
  // Before the peer runs out of slots or arena, whatever else goes on.
  if (inbound_.taken() - told_taken_ >= std::max(peer_.geometry.slots / 4, uint32_t{1}) ||
      inbound_.position() - told_position_ >= peer_.geometry.arena_bytes / 4) {
    PublishTaken();
  }
  return received;
}

bool SoftQueuePair::Deliver(const Inbound::Message& message) {
  if (message.payload == nullptr) {
    CompleteReceive(CompletionStatus::kLocalQueuePairError, 0);
    Violated("a message longer than its ring");
    return false;
  }
  const rdma::Sge& sge = receives_[receive_taken_ & (receives_.size() - 1)].sge;
  if (message.bytes > sge.length) {
    CompleteReceive(CompletionStatus::kLocalLengthError, 0);
    Fail(CompletionStatus::kRemoteInvalidRequest);
    return false;
  }
  if (!domain_->keys().MayWrite(sge.lkey, sge.address, message.bytes, false)) {
    CompleteReceive(CompletionStatus::kLocalProtectionError, 0);
    Fail(CompletionStatus::kRemoteOperationError);
    return false;
  }
  if (message.bytes != 0) {
    std::memcpy(const_cast<std::byte*>(sge.address), message.payload, message.bytes);
  }
  inbound_.Take(message);
  CompleteReceive(CompletionStatus::kSuccess, message.bytes);
  return true;
}

// No receive is posted. False: the peer's patience is over, and it has been told.
bool SoftQueuePair::MayWaitForReceive() {
  if (rnr_retry_ == 7) {
    waiting_for_receive_ = true;
    return true;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!waiting_for_receive_) {
    waiting_for_receive_ = true;
    receive_deadline_ = now + rnr_retry_ * kRnrTimer;
  }
  if (now < receive_deadline_) return true;
  taken_flags_ = Taken(0, CompletionStatus::kReceiverNotReady);
  PublishTaken();
  return false;
}

void SoftQueuePair::PublishTaken() {
  told_taken_ = inbound_.taken();
  told_position_ = inbound_.position();
  outbound_.segment().header().taken.store(taken_flags_ | told_taken_, std::memory_order_seq_cst);
  RingIfArmed(true);
}

void SoftQueuePair::CompleteReceive(CompletionStatus status, uint32_t bytes) {
  waiting_for_receive_ = false;
  const rdma::Completion completion{
      .wr_id = receives_[receive_taken_ & (receives_.size() - 1)].wr_id,
      .status = status,
      .opcode = rdma::Opcode::kReceive,
      .bytes = bytes,
      .queue_pair = number_};
  ++receive_taken_;
  receive_queue_->Push(completion, *this, Side::kReceive, receive_taken_);
}

}  // namespace farcall::softnic
