// The send queue of a queue pair: from posting to completion.

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/softnic/queue_pair.h"

namespace farcall::softnic {

using rdma::Completion;
using rdma::CompletionStatus;
using rdma::Opcode;
using rdma::QueuePairState;
using rdma::SendRequest;

namespace {

uint64_t Length(const SendRequest& request) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < request.sge_count; ++i) bytes += request.sges[i].length;
  return bytes;
}

absl::Status Misfit(const SendRequest& request, uint64_t bytes) {
  return absl::InvalidArgumentError(absl::StrCat(
      "softnic: ", std::string(rdma::ToString(request.opcode)), " of ", bytes, " bytes in ",
      int{request.sge_count}, " segments", request.inlined ? ", inline," : "",
      " is beyond what the queue pair was granted"));
}

}  // namespace

absl::Status SoftQueuePair::PostSend(std::span<const SendRequest> requests, size_t& posted) {
  posted = 0;
  absl::Status status = Usable();
  if (!status.ok()) return status;
  if (state_ != QueuePairState::kReadyToSend && state_ != QueuePairState::kError) {
    return absl::FailedPreconditionError("softnic: the queue pair is not connected yet");
  }
  for (const SendRequest& request : requests) {
    if (send_posted_ - send_released_ == send_depth_) {
      status = absl::ResourceExhaustedError(
          absl::StrCat("softnic: the send queue is full: ", send_depth_, " requests"));
      break;
    }
    const uint64_t bytes = request.sge_count <= rdma::kMaxSges ? Length(request) : 0;
    if (!Fits(request, bytes)) {
      status = Misfit(request, bytes);
      break;
    }
    Enqueue(request, bytes);
    ++posted;
  }
  if (sends_outstanding()) MakeBusy();
  if (outbound_.Publish()) {
    RingIfArmed(false);
    outbound_.WarmNext();
  }
  return status;
}

bool SoftQueuePair::Fits(const SendRequest& request, uint64_t bytes) const {
  const rdma::Capabilities& device = device_->capabilities;
  switch (request.opcode) {
    case Opcode::kSend:
      return request.sge_count <= device.max_send_sges && bytes <= device.max_send_bytes &&
             (!request.inlined || bytes <= max_inline_);
    case Opcode::kRead:
      return request.sge_count <= device.max_read_sges && bytes <= device.max_read_bytes &&
             !request.inlined;
    case Opcode::kBind:
      return device.windows && request.window != nullptr && request.region != nullptr;
    case Opcode::kLocalInvalidate:
      return device.windows;
    case Opcode::kReceive:
      break;
  }
  return false;
}

void SoftQueuePair::Enqueue(const SendRequest& request, uint64_t bytes) {
  const uint32_t index = send_posted_++;
  Work& work = this->work(index);
  work.wr_id = request.wr_id;
  work.completes_at = 0;
  work.bytes = bytes;
  work.opcode = request.opcode;
  work.step = Step::kQueued;
  work.status = CompletionStatus::kSuccess;
  work.signaled = request.signaled;
  if (state_ == QueuePairState::kError) {
    Complete(work, CompletionStatus::kFlushed);
    send_started_ = send_reading_ = send_posted_;
    return;
  }
  // Most leave at once.
  if (request.opcode == Opcode::kSend && send_started_ == index && !stopped_ &&
      device_->faults == nullptr && StartSend(work, request)) {
    NoteStarted(work);
    return;
  }
  Queue(index, request);
}

// It may wait.
void SoftQueuePair::Queue(uint32_t index, const SendRequest& request) {
  Rest& rest = this->rest(index);
  rest = {.request = request};
  if (request.opcode == Opcode::kBind) {
    rest.bind_key = static_cast<Window*>(request.window)->TakeKey();
  }
  StartQueued();
  if (!request.inlined || send_started_ == send_posted_) return;
  // The caller's memory may change.
  std::byte* copy = inlined_.get() + size_t{index & (works_.size() - 1)} * max_inline_;
  Gather(request, copy);
  rest.request.sges[0] = {copy, static_cast<uint32_t>(Length(request)), 0};
  rest.request.sge_count = 1;
}

// Requests start in order. READs only take their place here: ReadSome carries them out.
void SoftQueuePair::StartQueued() {
  while (send_started_ != send_posted_ && !stopped_) {
    if (!Start(send_started_) || state_ != QueuePairState::kReadyToSend) return;
    NoteStarted(work(send_started_));
  }
}

void SoftQueuePair::NoteStarted(const Work& work) {
  // One that waits for nothing but its peer is no work for the next Progress.
  if (send_reading_ == send_started_ && work.step == Step::kSent) ++send_reading_;
  ++send_started_;
  stopped_ = work.status != CompletionStatus::kSuccess;
}

bool SoftQueuePair::Start(uint32_t index) {
  Work& work = this->work(index);
  Rest& rest = this->rest(index);
  if (rest.starts_at > polls_) return false;
  if (rest.starts_at == 0) {
    rest.starts_at = polls_;
    if (device_->faults != nullptr && Befall(work, rest)) return work.step == Step::kDone;
  }
  const SendRequest& request = rest.request;
  switch (request.opcode) {
    case Opcode::kSend:
      return StartSend(work, request);
    case Opcode::kBind: {
      const bool bound = static_cast<Window*>(request.window)
                             ->Bind(rest.bind_key, *static_cast<const Region*>(request.region),
                                    request.bind_address, request.bind_length);
      Done(work, bound ? CompletionStatus::kSuccess : CompletionStatus::kBindError);
      return true;
    }
    case Opcode::kLocalInvalidate:
      Done(work, domain_->keys().ClearRemote(request.rkey) ? CompletionStatus::kSuccess
                                                           : CompletionStatus::kBindError);
      return true;
    default:
      return true;
  }
}

// True: the fault decides how it goes on.
bool SoftQueuePair::Befall(Work& work, Rest& rest) {
  const std::optional<Fault> fault = device_->faults->Next(work.opcode);
  if (!fault.has_value()) return false;
  switch (fault->kind) {
    case Fault::Kind::kDelay:
      rest.starts_at = polls_ + fault->polls;
      return true;
    case Fault::Kind::kLateCompletion:
      work.completes_at = polls_ + fault->polls;
      return false;
    case Fault::Kind::kDrop:
      Done(work, CompletionStatus::kRetryExceeded);
      return true;
    case Fault::Kind::kNotReady:
      Done(work, CompletionStatus::kReceiverNotReady);
      return true;
    case Fault::Kind::kRefuse:
      Done(work, CompletionStatus::kRemoteOperationError);
      return true;
    case Fault::Kind::kPartialRead:
      rest.read_limit = std::max<uint64_t>(work.bytes / 2, 1);
      return false;
    case Fault::Kind::kOverrun:
      send_queue_->Overrun();
      return true;
    case Fault::Kind::kRemoval:
      device_->removed.store(true, std::memory_order_relaxed);
      Housekeep();
      return true;
  }
  return false;
}

bool SoftQueuePair::StartSend(Work& work, const SendRequest& request) {
  if (refusal_ != CompletionStatus::kSuccess) {
    Done(work, CompletionStatus::kRetryExceeded);
    return true;
  }
  for (uint32_t i = 0; i < request.sge_count && !request.inlined; ++i) {
    const rdma::Sge& sge = request.sges[i];
    if (!domain_->keys().MayRead(sge.lkey, sge.address, sge.length)) {
      Done(work, CompletionStatus::kLocalProtectionError);
      return true;
    }
  }
  const auto bytes = static_cast<uint32_t>(work.bytes);
  if (!outbound_.HasRoom(bytes)) return false;
  Gather(request, outbound_.Begin(bytes));
  work.message = outbound_.sent();
  work.step = Step::kSent;
  told_taken_ = inbound_.taken();
  told_position_ = inbound_.position();
  work.arena_end = outbound_.Commit(bytes, told_taken_);
  return true;
}

void SoftQueuePair::Gather(const SendRequest& request, std::byte* to) const {
  for (uint32_t i = 0; i < request.sge_count; ++i) {
    const rdma::Sge& sge = request.sges[i];
    if (sge.length != 0) std::memcpy(to, sge.address, sge.length);
    to += sge.length;
  }
}

// ---- what the peer says of our messages ----

void SoftQueuePair::LookAtTaken() {
  const uint64_t word = inbound_.segment().header().taken.load(std::memory_order_acquire);
  if (!outbound_.OnTaken(static_cast<uint32_t>(word))) {
    return Violated("it took messages that were never sent");
  }
  if (word >> 32 == 0) return;
  if (word >> 32 > static_cast<uint64_t>(CompletionStatus::kFatal)) {
    return Violated("it refused for no known reason");
  }
  OnRefused(static_cast<CompletionStatus>(word >> 32));
}

// The oldest message on its way is the refused one.
void SoftQueuePair::OnRefused(CompletionStatus refusal) {
  if (refusal_ != CompletionStatus::kSuccess) return;
  refusal_ = refusal;
  for (uint32_t i = send_retired_; i != send_started_; ++i) {
    Work& sent = work(i);
    if (sent.step == Step::kSent && static_cast<int32_t>(outbound_.taken() - sent.message) <= 0) {
      Done(sent, refusal);
      stopped_ = true;
      return;
    }
  }
}

// ---- READs ----

void SoftQueuePair::ReadSome() {
  uint64_t budget = kReadPieceBytes;
  while (send_reading_ != send_started_) {
    Work& next = work(send_reading_);
    if (next.opcode == Opcode::kRead && next.step != Step::kDone) {
      if (budget == 0) return;
      Rest& rest = this->rest(send_reading_);
      const uint64_t piece = std::min(budget, next.bytes - rest.read);
      if (!ReadPiece(next, rest, piece)) {
        stopped_ = next.status != CompletionStatus::kSuccess;
        return;
      }
      budget -= piece;
      if (rest.read != next.bytes) return;
      Done(next, CompletionStatus::kSuccess);
    }
    ++send_reading_;
  }
}

// The peer made notices of memory that have not come yet.
bool SoftQueuePair::MayAwaitSlab() {
  const auto now = std::chrono::steady_clock::now();
  if (!slab_deadline_.has_value()) slab_deadline_ = now + kNoticeTime;
  return now < *slab_deadline_;
}

// Copies the next bytes. Every piece looks everything up again: keys and memory may go between.
// False: it failed, was flushed, or goes on in a later Poll.
bool SoftQueuePair::ReadPiece(Work& work, Rest& rest, uint64_t bytes) {
  const SendRequest& request = rest.request;
  const auto fail = [&](CompletionStatus status) {
    Done(work, status);
    return false;
  };
  if (rest.read_limit != 0) bytes = std::min(bytes, rest.read_limit - rest.read);
  if (refusal_ != CompletionStatus::kSuccess) return fail(CompletionStatus::kRetryExceeded);
  if (request.remote_address > UINT64_MAX - work.bytes) {
    return fail(CompletionStatus::kRemoteAccessError);
  }
  const uint64_t address = request.remote_address + rest.read;
  std::optional<RemotePlace> place = peer_keys_.Find(request.rkey, address, bytes);
  if (!place.has_value()) return fail(CompletionStatus::kRemoteAccessError);
  // Memory is announced before it is offered, so the notice is on its way.
  if (!slabs_.contains(place->slab)) ReadNotices();
  if (state_ != QueuePairState::kReadyToSend) return false;  // flushed meanwhile
  const auto slab = slabs_.find(place->slab);
  if (slab == slabs_.end() && announced()) {
    return MayAwaitSlab() ? false : fail(CompletionStatus::kRetryExceeded);
  }
  slab_deadline_.reset();
  if (slab == slabs_.end() || place->offset > slab->second.size() ||
      bytes > slab->second.size() - place->offset) {
    return fail(CompletionStatus::kRemoteAccessError);
  }
  const std::byte* from = slab->second.base() + place->offset;
  uint64_t skip = rest.read;
  uint64_t left = bytes;
  for (uint32_t i = 0; i < request.sge_count && left != 0; ++i) {
    const rdma::Sge& sge = request.sges[i];
    if (skip >= sge.length) {
      skip -= sge.length;
      continue;
    }
    const uint64_t part = std::min(left, sge.length - skip);
    const std::byte* to = sge.address + skip;
    if (!domain_->keys().MayWrite(sge.lkey, to, part,
                                  device_->capabilities.read_sink_needs_remote_write)) {
      return fail(CompletionStatus::kLocalProtectionError);
    }
    std::memcpy(const_cast<std::byte*>(to), from, part);
    from += part;
    left -= part;
    skip = 0;
  }
  if (!peer_keys_.StillValid(request.rkey)) return fail(CompletionStatus::kRemoteAccessError);
  rest.read += bytes;
  if (rest.read_limit != 0 && rest.read == rest.read_limit) {
    return fail(CompletionStatus::kRemoteOperationError);
  }
  return true;
}

// ---- completion ----

void SoftQueuePair::Retire() {
  while (sends_outstanding()) {
    Work& oldest = work(send_retired_);
    const bool taken =
        oldest.step == Step::kSent && static_cast<int32_t>(outbound_.taken() - oldest.message) > 0;
    if ((!taken && oldest.step != Step::kDone) || oldest.completes_at > polls_) return;
    if (oldest.status != CompletionStatus::kSuccess) {
      Complete(oldest, oldest.status);
      return Fail();
    }
    if (taken) outbound_.Release(oldest.arena_end);
    Complete(oldest, CompletionStatus::kSuccess);
  }
}

// The oldest request is over.
void SoftQueuePair::Complete(const Work& work, CompletionStatus status) {
  ++send_retired_;
  if (status == CompletionStatus::kSuccess && !work.signaled) return;
  const Completion completion{.wr_id = work.wr_id,
                              .status = status,
                              .opcode = work.opcode,
                              .bytes = static_cast<uint32_t>(work.bytes),
                              .queue_pair = number_};
  send_queue_->Push(completion, *this, Side::kSend, send_retired_);
}

}  // namespace farcall::softnic
