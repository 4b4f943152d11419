#include "farcall/transports/tcp/assembler.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farcall::tcp {

static_assert(kReadBufferBytes >= 2 * (kPrefixBytes + kMaxHeadBytes),
              "a prefix and its head are parsed in one piece");

Assembler::Assembler(AssemblerEvents& events, BufferPool& pool, const TransportLimits& limits)
    : events_(events), pool_(pool), max_announced_bytes_(limits.max_announced_bytes) {}

void Assembler::Attach(std::span<std::byte> scratch) {
  assert(scratch.size() == kReadBufferBytes && buffer_.empty());
  buffer_ = scratch;
  begin_ = 0;
  end_ = parked_.size();
  if (end_ > 0) std::memcpy(buffer_.data(), parked_.data(), end_);
  parked_.clear();
}

void Assembler::Detach() {
  const auto rest = buffer_.subspan(begin_, stopped_ ? 0 : buffered());
  if (rest.empty()) {
    std::vector<std::byte>().swap(parked_);
  } else {
    parked_.assign(rest.begin(), rest.end());
  }
  buffer_ = {};
  begin_ = end_ = 0;
}

Assembler::Regions Assembler::Want() {
  Regions regions;
  const auto add = [&](std::span<std::byte> bytes) {
    if (bytes.empty()) return;
    regions.region[regions.count++] = {bytes.data(), bytes.size()};
    regions.bytes += bytes.size();
  };
  if (begin_ > 0) {
    if (begin_ < end_) std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
    end_ = buffered();
    begin_ = 0;
  }
  holes_ = {};
  if (state_ == State::kPayload && !current_->dropped) {
    holes_[0] = Hole(*current_, 0, current_left_);
    holes_[1] = Hole(*current_, holes_[0].size(), current_left_ - holes_[0].size());
    add(holes_[0]);
    add(holes_[1]);
  }
  add(buffer_.subspan(end_, std::min(WantedInBuffer(), buffer_.size() - end_)));
  return regions;
}

// How many bytes belong into the read buffer next: as many as it holds while only small messages
// come, no more than are known not to be payload when large ones do.
size_t Assembler::WantedInBuffer() const {
  constexpr size_t kAll = std::numeric_limits<size_t>::max();
  switch (state_) {
    case State::kPreamble:
      return kAll;
    case State::kPrefix:
      if (!bulk()) return kAll;
      return kPrefixBytes - buffered() + (transfers_.empty() ? bulk_head_bytes_ : 0);
    case State::kHead: {
      const size_t head_left = prefix_.head - buffered();
      if (prefix_.kind == RecordKind::kBegin) return head_left + kPrefixBytes;
      if (prefix_.payload() > kCopyBytes) return head_left;
      return bulk() ? head_left + prefix_.payload() + kPrefixBytes : kAll;
    }
    case State::kPayload: {
      if (current_->dropped || !bulk()) return kAll;
      const bool last = current_->received + current_left_ == current_->total;
      const bool alone = current_ == &inlined_ ? transfers_.empty() : transfers_.size() == 1;
      return kPrefixBytes + (last && alone ? bulk_head_bytes_ : 0);
    }
  }
  return kAll;
}

// The memory for the payload bytes that come `ahead` bytes after those received, at most `limit`
// and not across the border of body and attachment.
std::span<std::byte> Assembler::Hole(Incoming& incoming, uint64_t ahead, uint64_t limit) {
  const uint64_t at = incoming.received + ahead;
  Message& message = incoming.message;
  if (at < message.body.size()) {
    return message.body.bytes().subspan(at, std::min(limit, message.body.size() - at));
  }
  return message.attachment.bytes().subspan(at - message.body.size(), limit);
}

absl::Status Assembler::Received(size_t bytes) {
  for (const std::span<std::byte>& hole : holes_) {
    const size_t filled = std::min(bytes, hole.size());
    Advance(filled);
    bytes -= filled;
  }
  holes_ = {};
  end_ += bytes;
  bool progress = true;
  while (progress && !stopped_) {
    absl::Status status = Parse(progress);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void Assembler::Advance(uint64_t bytes) {
  if (bytes == 0) return;
  current_->received += bytes;
  current_left_ -= bytes;
  bytes_received_ += bytes;
}

// Takes one step; no progress when more bytes are needed.
absl::Status Assembler::Parse(bool& progress) {
  switch (state_) {
    case State::kPreamble:
      progress = buffered() >= kPreambleBytes;
      return ParsePreamble();
    case State::kPrefix:
      progress = buffered() >= kPrefixBytes;
      return progress ? ParsePrefix() : absl::OkStatus();
    case State::kHead:
      progress = buffered() >= prefix_.head;
      return progress ? ParseHead() : absl::OkStatus();
    case State::kPayload:
      progress = buffered() >= current_left_;
      ParsePayload();
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Assembler::ParsePreamble() {
  absl::Status status = CheckPreamble(buffer_.subspan(begin_, buffered()));
  if (!status.ok() || buffered() < kPreambleBytes) return status;
  begin_ += kPreambleBytes;
  state_ = State::kPrefix;
  return status;
}

absl::Status Assembler::ParsePrefix() {
  absl::Status status = DecodePrefix(
      std::span<const std::byte, kPrefixBytes>(buffer_.data() + begin_, kPrefixBytes), prefix_);
  if (!status.ok()) return status;
  begin_ += kPrefixBytes;
  switch (prefix_.kind) {
    case RecordKind::kMessage:
      state_ = State::kHead;
      return absl::OkStatus();
    case RecordKind::kBegin:
      state_ = State::kHead;
      return CheckTransfer(prefix_.transfer);
    case RecordKind::kChunk:
      return BeginChunk();
    case RecordKind::kAbort:
      return OnAbort();
    case RecordKind::kAbandon:
      return events_.OnPeerAbandon(prefix_.transfer);
  }
  return absl::OkStatus();
}

absl::Status Assembler::CheckTransfer(uint32_t transfer) {
  const uint32_t expected =
      last_transfer_ == std::numeric_limits<uint32_t>::max() ? 1 : last_transfer_ + 1;
  if (transfer != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("transfers are numbered in order: ", expected, " is next, not ", transfer));
  }
  if (transfers_.size() >= kMaxTransfers) {
    return absl::InvalidArgumentError(
        absl::StrCat("at most ", kMaxTransfers, " transfers are unfinished at once"));
  }
  last_transfer_ = transfer;
  return absl::OkStatus();
}

absl::Status Assembler::ParseHead() {
  const std::span<const std::byte> head = buffer_.subspan(begin_, prefix_.head);
  const MessageSizes sizes{prefix_.body, prefix_.attachment};
  Incoming incoming;
  incoming.ticket = ++last_ticket_;
  incoming.total = prefix_.payload();
  Admission admission = events_.Admit(incoming.ticket, head, sizes);
  if (stopped_) return absl::OkStatus();
  incoming.dropped = !admission.refused.ok();
  if (!incoming.dropped) {
    absl::Status place = TakePlace(incoming, head, sizes, std::move(admission.attachment));
    if (!place.ok()) {
      Drop(incoming);
      events_.OnAbandoned(incoming.ticket, std::move(place));
      if (stopped_) return absl::OkStatus();
    }
  }
  begin_ += prefix_.head;
  bytes_received_ += prefix_.head;
  bulk_ = incoming.total > kCopyBytes;
  if (bulk_) bulk_head_bytes_ = prefix_.head;
  if (prefix_.kind == RecordKind::kBegin) {
    state_ = State::kPrefix;
    if (incoming.dropped) events_.SendAbandon(prefix_.transfer);
    transfer_of_.emplace(incoming.ticket, prefix_.transfer);
    transfers_.emplace(prefix_.transfer, std::move(incoming));
    return absl::OkStatus();
  }
  state_ = State::kPayload;
  inlined_ = std::move(incoming);
  current_ = &inlined_;
  current_left_ = inlined_.total;
  return absl::OkStatus();
}

// Finds memory for a message that was admitted.
absl::Status Assembler::TakePlace(Incoming& incoming, std::span<const std::byte> head,
                                  MessageSizes sizes, Buffer attachment) {
  Message& message = incoming.message;
  Buffer spill;
  if (head.size() > Head::kInlineBytes) {
    auto buffer = pool_.Allocate(head.size());
    if (!buffer.ok()) return buffer.status();
    spill = *std::move(buffer);
  }
  const std::span<std::byte> copy = message.head.Resize(head.size(), std::move(spill));
  std::copy(head.begin(), head.end(), copy.begin());
  if (incoming.total > kMaxInlinePayload) {
    if (absl::Status status = CheckAnnounced(incoming.total); !status.ok()) return status;
    incoming.announced = incoming.total;
    announced_ += incoming.announced;
  }
  if (sizes.body > 0) {
    auto buffer = pool_.AllocateLazily(sizes.body);
    if (!buffer.ok()) return buffer.status();
    message.body = *std::move(buffer);
  }
  if (attachment && attachment.slot()->capacity >= sizes.attachment) {
    attachment.SetView(0, sizes.attachment);
    message.attachment = std::move(attachment);
  } else if (sizes.attachment > 0) {
    auto buffer = pool_.AllocateLazily(sizes.attachment);
    if (!buffer.ok()) return buffer.status();
    message.attachment = *std::move(buffer);
  }
  return absl::OkStatus();
}

// One payload may always be announced alone: how large it may be is for Admit to say.
absl::Status Assembler::CheckAnnounced(uint64_t bytes) const {
  if (announced_ == 0) return absl::OkStatus();
  if (announced_ <= max_announced_bytes_ && bytes <= max_announced_bytes_ - announced_) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("a payload of ", bytes, " bytes does not fit beside the ", announced_,
                   " that this peer has announced and not finished (max_announced_bytes ",
                   max_announced_bytes_, ")"));
}

// Makes the first `bytes` of a large payload's place usable.
absl::Status Assembler::Commit(const Incoming& incoming, uint64_t bytes) {
  const Message& message = incoming.message;
  const uint64_t body = std::min<uint64_t>(bytes, message.body.size());
  absl::Status status = BufferPool::Commit(message.body, body);
  if (status.ok() && bytes > body) status = BufferPool::Commit(message.attachment, bytes - body);
  return status;
}

absl::Status Assembler::BeginChunk() {
  const auto found = transfers_.find(prefix_.transfer);
  if (found == transfers_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a CHUNK belongs to a transfer that is under way, not ", prefix_.transfer));
  }
  Incoming& incoming = found->second;
  if (prefix_.offset != incoming.received) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunks come in order: offset ", incoming.received, " of transfer ",
                     prefix_.transfer, " is next, not ", prefix_.offset));
  }
  if (prefix_.length > incoming.total - incoming.received) {
    return absl::InvalidArgumentError(
        absl::StrCat("a CHUNK ends with its payload: ", incoming.total - incoming.received,
                     " bytes are left, not ", prefix_.length));
  }
  if (!incoming.dropped) {
    if (absl::Status place = Commit(incoming, incoming.received + prefix_.length); !place.ok()) {
      Drop(incoming);
      events_.SendAbandon(prefix_.transfer);
      events_.OnAbandoned(incoming.ticket, std::move(place));
      if (stopped_) return absl::OkStatus();
    }
  }
  state_ = State::kPayload;
  current_ = &incoming;
  current_left_ = prefix_.length;
  return absl::OkStatus();
}

void Assembler::ParsePayload() {
  uint64_t left = std::min<uint64_t>(buffered(), current_left_);
  while (left > 0) {
    uint64_t step = left;
    if (!current_->dropped) {
      const std::span<std::byte> hole = Hole(*current_, 0, left);
      step = hole.size();
      std::memcpy(hole.data(), buffer_.data() + begin_, step);
      payload_bytes_copied_ += step;
    }
    begin_ += step;
    left -= step;
    Advance(step);
  }
  if (current_left_ == 0) FinishPayload();
}

// The payload bytes of a record are in.
void Assembler::FinishPayload() {
  state_ = State::kPrefix;
  Incoming* incoming = std::exchange(current_, nullptr);
  if (incoming == &inlined_) {
    Deliver(inlined_);
    return;
  }
  if (incoming->received < incoming->total) return;
  Incoming done = TakeTransfer(prefix_.transfer);
  Deliver(done);
}

// The end of a transfer, which is under way.
Assembler::Incoming Assembler::TakeTransfer(uint32_t transfer) {
  Incoming incoming = std::move(transfers_.extract(transfer).mapped());
  transfer_of_.erase(incoming.ticket);
  Forget(incoming);
  if (incoming.dropped) events_.DropAbandon(transfer);
  return incoming;
}

void Assembler::Deliver(Incoming& incoming) {
  if (incoming.dropped) return;
  ++messages_received_;
  Message message = std::move(incoming.message);  // what is left of it goes now
  events_.OnMessage(incoming.ticket, std::move(message));
}

absl::Status Assembler::OnAbort() {
  if (!transfers_.contains(prefix_.transfer)) {
    return absl::InvalidArgumentError(
        absl::StrCat("an ABORT ends a transfer that is under way, not ", prefix_.transfer));
  }
  const Incoming incoming = TakeTransfer(prefix_.transfer);
  if (!incoming.dropped) {
    events_.OnAbandoned(incoming.ticket,
                        absl::CancelledError(absl::StrCat("the sender gave the message up after ",
                                                          incoming.received, " of ", incoming.total,
                                                          " payload bytes")));
  }
  return absl::OkStatus();
}

bool Assembler::Abandon(Ticket ticket) {
  if (stopped_) return false;
  if (current_ == &inlined_ && inlined_.ticket == ticket && !inlined_.dropped) {
    Drop(inlined_);
    return true;
  }
  const auto found = transfer_of_.find(ticket);
  if (found == transfer_of_.end()) return false;
  Incoming& incoming = transfers_.find(found->second)->second;
  if (incoming.dropped) return false;
  Drop(incoming);
  events_.SendAbandon(found->second);
  return true;
}

// Gives the memory back now; the bytes that still come are thrown away.
void Assembler::Drop(Incoming& incoming) {
  incoming.dropped = true;
  incoming.message = Message{};
  Forget(incoming);
}

// A payload stops counting as announced.
void Assembler::Forget(Incoming& incoming) { announced_ -= std::exchange(incoming.announced, 0); }

void Assembler::Stop() {
  stopped_ = true;
  current_ = nullptr;
  inlined_.message = Message{};
  transfers_.clear();
  transfer_of_.clear();
}

std::string Assembler::Position() const {
  const size_t left = buffered() + parked_.size();
  std::string where;
  switch (state_) {
    case State::kPreamble:
      where =
          absl::StrCat("before its preamble was whole (", left, " of ", kPreambleBytes, " bytes)");
      break;
    case State::kPrefix:
      if (left > 0) {
        where = absl::StrCat("inside a record's prefix (", left, " of ", kPrefixBytes, " bytes)");
      }
      break;
    case State::kHead:
      where = absl::StrCat("inside a message's head (", left, " of ", prefix_.head, " bytes)");
      break;
    case State::kPayload:
      where = absl::StrCat("inside a message's payload (", current_left_,
                           " bytes of the record missing)");
      break;
  }
  if (!transfers_.empty()) {
    absl::StrAppend(&where, where.empty() ? "" : ", ", "with ", transfers_.size(),
                    " large payloads unfinished");
  }
  return where;
}

}  // namespace farcall::tcp
