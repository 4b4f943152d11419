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
    status = Check(request);
    if (!status.ok()) break;
    Enqueue(request);
    ++posted;
  }
  if (sends_outstanding()) MakeBusy();
  if (outbound_.Publish()) {
    RingIfArmed(false);
    outbound_.WarmNext();
  }
  return status;
}

absl::Status SoftQueuePair::Check(const SendRequest& request) const {
  const rdma::Capabilities& device = device_->capabilities;
  const uint64_t bytes = request.sge_count <= rdma::kMaxSges ? Length(request) : 0;
  switch (request.opcode) {
    case Opcode::kSend:
      if (request.sge_count <= device.max_send_sges && bytes <= device.max_send_bytes &&
          (!request.inlined || bytes <= max_inline_)) {
        return absl::OkStatus();
      }
      break;
    case Opcode::kRead:
      if (request.sge_count <= device.max_read_sges && bytes <= device.max_read_bytes &&
          !request.inlined) {
        return absl::OkStatus();
      }
      break;
    case Opcode::kBind:
      if (device.windows && request.window != nullptr && request.region != nullptr) {
        return absl::OkStatus();
      }
      break;
    case Opcode::kLocalInvalidate:
      if (device.windows) return absl::OkStatus();
      break;
    case Opcode::kReceive:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "softnic: ", std::string(rdma::ToString(request.opcode)), " of ", bytes, " bytes in ",
      int{request.sge_count}, " segments", request.inlined ? ", inline," : "",
      " is beyond what the queue pair was granted"));
}

void SoftQueuePair::Enqueue(const SendRequest& request) {
  const uint32_t index = send_posted_++;
  Work& work = this->work(index);
  work.request = request;
  work.step = Step::kQueued;
  work.status = CompletionStatus::kSuccess;
  work.read = work.read_limit = work.starts_at = work.completes_at = 0;
  if (request.opcode == Opcode::kBind) {
    work.bind_key = static_cast<Window*>(request.window)->TakeKey();
  }
  if (state_ == QueuePairState::kError) {
    Complete(work, CompletionStatus::kFlushed);
    send_started_ = send_reading_ = send_posted_;
    return;
  }
  StartQueued();
  if (!request.inlined || send_started_ == send_posted_) return;
  // It waits, and the caller's memory may change.
  std::byte* copy = inlined_.get() + size_t{index & (works_.size() - 1)} * max_inline_;
  Gather(request, copy);
  work.request.sges[0] = {copy, static_cast<uint32_t>(Length(request)), 0};
  work.request.sge_count = 1;
}

// Requests start in order. READs only take their place here: ReadSome carries them out.
void SoftQueuePair::StartQueued() {
  while (send_started_ != send_posted_ && !stopped_) {
    Work& next = work(send_started_);
    if (!Start(next) || state_ != QueuePairState::kReadyToSend) return;
    ++send_started_;
    stopped_ = next.status != CompletionStatus::kSuccess;
  }
}

bool SoftQueuePair::Start(Work& work) {
  if (work.starts_at > polls_) return false;
  if (work.starts_at == 0) {
    work.starts_at = polls_;
    if (device_->faults != nullptr && Befall(work)) return work.step == Step::kDone;
  }
  const SendRequest& request = work.request;
  switch (request.opcode) {
    case Opcode::kSend:
      return StartSend(work);
    case Opcode::kBind: {
      const bool bound = static_cast<Window*>(request.window)
                             ->Bind(work.bind_key, *static_cast<const Region*>(request.region),
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
bool SoftQueuePair::Befall(Work& work) {
  const std::optional<Fault> fault = device_->faults->Next(work.request.opcode);
  if (!fault.has_value()) return false;
  switch (fault->kind) {
    case Fault::Kind::kDelay:
      work.starts_at = polls_ + fault->polls;
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
      work.read_limit = std::max<uint64_t>(Length(work.request) / 2, 1);
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

bool SoftQueuePair::StartSend(Work& work) {
  const SendRequest& request = work.request;
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
  const auto bytes = static_cast<uint32_t>(Length(request));
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
    if (next.request.opcode == Opcode::kRead && next.step != Step::kDone) {
      if (budget == 0) return;
      const uint64_t whole = Length(next.request);
      const uint64_t piece = std::min(budget, whole - next.read);
      if (!ReadPiece(next, piece)) {
        stopped_ = next.status != CompletionStatus::kSuccess;
        return;
      }
      budget -= piece;
      if (next.read != whole) return;
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
bool SoftQueuePair::ReadPiece(Work& work, uint64_t bytes) {
  const SendRequest& request = work.request;
  const auto fail = [&](CompletionStatus status) {
    Done(work, status);
    return false;
  };
  if (work.read_limit != 0) bytes = std::min(bytes, work.read_limit - work.read);
  if (refusal_ != CompletionStatus::kSuccess) return fail(CompletionStatus::kRetryExceeded);
  if (request.remote_address > UINT64_MAX - Length(request)) {
    return fail(CompletionStatus::kRemoteAccessError);
  }
  const uint64_t address = request.remote_address + work.read;
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
  uint64_t skip = work.read;
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
  work.read += bytes;
  if (work.read_limit != 0 && work.read == work.read_limit) {
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
void SoftQueuePair::Complete(Work& work, CompletionStatus status) {
  const SendRequest& request = work.request;
  ++send_retired_;
  if (status == CompletionStatus::kSuccess && !request.signaled) return;
  const Completion completion{.wr_id = request.wr_id,
                              .status = status,
                              .opcode = request.opcode,
                              .bytes = static_cast<uint32_t>(Length(request)),
                              .queue_pair = number_};
  send_queue_->Push(completion, *this, Side::kSend, send_retired_);
}

}  // namespace farcall::softnic
