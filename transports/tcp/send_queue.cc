#include "farcall/transports/tcp/send_queue.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farcall::tcp {
namespace {

// A message needs at most four regions: front, large head, body, attachment.
constexpr size_t kRegionsPerRecord = 4;
// Beyond this a ring that ran empty gives its memory back.
constexpr size_t kMaxIdleRing = 512;

bool IsLarge(const Message& message) { return message.payload_bytes() > kMaxInlinePayload; }

// The number of the transfer that begins after `begun` others: 1 to 2^32-1, then 1 again.
uint32_t TransferAfter(uint64_t begun) {
  constexpr uint64_t kNumbers = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(begun % kNumbers + 1);
}

}  // namespace

// Writes records into a batch, leaving out the bytes of the first that left before.
class SendQueue::Planner {
 public:
  Planner(SendBatch& batch, size_t skip) : batch_(batch), skip_(skip) {
    batch.count = batch.bytes = batch.small_payload = batch.planned = 0;
  }

  bool full() const {
    return batch_.count + kRegionsPerRecord > batch_.regions.size() ||
           batch_.bytes >= kMaxGatherBytes;
  }

  void PlanControl(const Control& control) {
    Begin(Kind::kControl, nullptr);
    Add(control.bytes.data(), control.size);
  }

  void PlanMessage(Outgoing& outgoing, uint32_t transfer) {
    const Message& message = outgoing.message;
    if (outgoing.large) SetTransfer(outgoing, transfer);
    Begin(Kind::kMessage, &outgoing);
    Add(outgoing.front.data(), outgoing.front_bytes);
    if (outgoing.front_bytes == kPrefixBytes) Add(message.head.data(), message.head.size());
    if (outgoing.large) return;
    const size_t before = batch_.bytes;
    Add(message.body.data(), message.body.size());
    Add(message.attachment.data(), message.attachment.size());
    batch_.small_payload += batch_.bytes - before;
  }

  // `outgoing`'s chunk_bytes say how long it is.
  void PlanChunk(Outgoing& outgoing) {
    const Message& message = outgoing.message;
    const uint64_t offset = outgoing.payload_sent;
    EncodePrefix({.kind = RecordKind::kChunk,
                  .transfer = outgoing.transfer,
                  .offset = offset,
                  .length = outgoing.chunk_bytes},
                 outgoing.chunk_prefix);
    Begin(Kind::kChunk, &outgoing);
    Add(outgoing.chunk_prefix.data(), kPrefixBytes);
    const size_t body = message.body.size();
    uint64_t left = outgoing.chunk_bytes;
    if (offset < body) {
      const uint64_t part = std::min<uint64_t>(left, body - offset);
      Add(message.body.data() + offset, part);
      left -= part;
    }
    if (left > 0) {
      const uint64_t done = std::max<uint64_t>(offset, body) - body;
      Add(message.attachment.data() + done, left);
    }
  }

 private:
  void Begin(Kind kind, Outgoing* outgoing) {
    batch_.records[batch_.planned++] = {kind, outgoing, 0};
  }

  void Add(const std::byte* data, size_t size) {
    batch_.records[batch_.planned - 1].bytes += size;
    const size_t skipped = std::min(skip_, size);
    skip_ -= skipped;
    if (size == skipped) return;
    // sendmsg does not write through it; iovec has no const form.
    batch_.regions[batch_.count++] = {const_cast<std::byte*>(data) + skipped, size - skipped};
    batch_.bytes += size - skipped;
  }

  static void SetTransfer(Outgoing& outgoing, uint32_t transfer) {
    if (outgoing.transfer == transfer) return;
    outgoing.transfer = transfer;
    EncodePrefix({.kind = RecordKind::kBegin,
                  .head = static_cast<uint16_t>(outgoing.message.head.size()),
                  .transfer = transfer,
                  .body = outgoing.message.body.size(),
                  .attachment = outgoing.message.attachment.size()},
                 std::span(outgoing.front).first<kPrefixBytes>());
  }

  SendBatch& batch_;
  size_t skip_;
};

SendQueue::SendQueue(OutgoingStore& store, const TransportLimits& limits)
    : store_(store), limits_(limits) {
  Control preamble;
  const auto bytes = Preamble();
  std::copy(bytes.begin(), bytes.end(), preamble.bytes.begin());
  preamble.size = bytes.size();
  control_.push_back(preamble);
}

SendQueue::~SendQueue() {
  FailAll(absl::OkStatus());
  while (Outgoing* outgoing = finished_.PopFront()) store_.Return(outgoing);
}

absl::Status SendQueue::CheckRoom(const Message& message) const {
  if (message.head.size() > kMaxHeadBytes) {
    return absl::InvalidArgumentError(absl::StrCat("message head of ", message.head.size(),
                                                   " bytes: at most ", kMaxHeadBytes,
                                                   " can be sent"));
  }
  if (queued_messages_ >= std::max<size_t>(limits_.max_queued_messages, 1)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "send queue: ", queued_messages(), " messages wait already (max_queued_messages)"));
  }
  const bool large = IsLarge(message);
  const size_t bytes = message.held_bytes();
  const size_t before = large ? large_bytes_ : small_bytes_;
  if (before > 0 &&
      (before > limits_.max_queued_bytes || bytes > limits_.max_queued_bytes - before)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "send queue: a message that holds ", bytes, " bytes does not fit beside the ", before,
        " that wait already (max_queued_bytes ", limits_.max_queued_bytes, ")"));
  }
  const size_t transfers = std::min(limits_.max_transfers, kMaxTransfers);
  if (large && large_messages_ >= transfers) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "send queue: ", large_messages_, " large payloads wait already (max_transfers)"));
  }
  return absl::OkStatus();
}

Ticket SendQueue::Push(Message message, SendDone done) {
  absl::Status room = CheckRoom(message);
  if (!room.ok()) return Reject(std::move(message), std::move(done), std::move(room));

  Outgoing* outgoing = store_.Take();
  outgoing->ticket = ++last_ticket_;
  outgoing->message = std::move(message);
  outgoing->done = std::move(done);
  outgoing->large = IsLarge(outgoing->message);
  const Head& head = outgoing->message.head;
  outgoing->front_bytes = kPrefixBytes;
  if (head.size() <= Head::kInlineBytes) {
    std::copy_n(head.data(), head.size(), outgoing->front.begin() + kPrefixBytes);
    outgoing->front_bytes += head.size();
  }
  if (!outgoing->large) {  // a BEGIN is written when its number is known
    EncodePrefix({.kind = RecordKind::kMessage,
                  .head = static_cast<uint16_t>(head.size()),
                  .body = outgoing->message.body.size(),
                  .attachment = outgoing->message.attachment.size()},
                 std::span(outgoing->front).first<kPrefixBytes>());
  }
  if (back_ - front_ == waiting_.size()) GrowWaiting();
  Slot(back_++) = {outgoing->ticket, outgoing};
  ++queued_messages_;
  (outgoing->large ? large_bytes_ : small_bytes_) += outgoing->message.held_bytes();
  if (outgoing->large) {
    ++large_messages_;
  } else {
    chunks_since_small_ = 0;
  }
  return outgoing->ticket;
}

Ticket SendQueue::Reject(Message message, SendDone done, absl::Status status) {
  Outgoing* outgoing = store_.Take();
  outgoing->ticket = ++last_ticket_;
  outgoing->message = std::move(message);
  outgoing->done = std::move(done);
  Finish(outgoing, std::move(status), false);
  return last_ticket_;
}

void SendQueue::Withdraw(Ticket ticket) {
  if (Waiting* waiting = Find(ticket); waiting != nullptr) {
    if (waiting->outgoing == cut_.outgoing) {
      FinishEarly(waiting->outgoing, absl::CancelledError("withdrawn while it was being sent"));
      return;
    }
    Outgoing* outgoing = std::exchange(waiting->outgoing, nullptr);
    TrimWaiting();
    Leave(*outgoing);
    Finish(outgoing, absl::CancelledError("withdrawn before it was sent"), false);
    return;
  }
  for (Outgoing* at = transfers_.front(); at != nullptr; at = at->next) {
    if (at->ticket != ticket) continue;
    StopTransfer(at, absl::CancelledError("withdrawn while it was being sent"));
    return;
  }
}

void SendQueue::PushControl(RecordKind kind, uint32_t transfer) {
  Control control;
  EncodePrefix({.kind = kind, .transfer = transfer}, control.bytes);
  control.size = kPrefixBytes;
  control_.push_back(control);
}

// No more than one call takes: what is offered cannot be taken back. Nor need it be: an ABANDON of
// a transfer that is over means nothing.
void SendQueue::OfferAbandons() {
  while (!abandons_.empty() && control_.size() < kMaxGather) {
    PushControl(RecordKind::kAbandon, *abandons_.begin());
    abandons_.erase(abandons_.begin());
  }
}

absl::Status SendQueue::PeerAbandoned(uint32_t transfer) {
  if (begun_ < transfer) {
    return absl::InvalidArgumentError(
        absl::StrCat("an ABANDON names a transfer that began, not ", transfer));
  }
  // OK: the receiver has what it wanted of it. Why it wanted no more is said by a message.
  const auto found = by_transfer_.find(transfer);
  if (found != by_transfer_.end()) StopTransfer(found->second, absl::OkStatus());
  return absl::OkStatus();
}

void SendQueue::Gather(SendBatch& batch) {
  OfferAbandons();
  const bool cut = cut_.kind != Kind::kNone;
  Planner planner(batch, cut ? cut_written_ : 0);
  if (cut_.kind == Kind::kMessage) planner.PlanMessage(*cut_.outgoing, TransferAfter(begun_));
  if (cut_.kind == Kind::kChunk) planner.PlanChunk(*cut_.outgoing);
  // A control record that was cut is the first one.
  for (const Control& control : control_) {
    if (planner.full()) return;
    planner.PlanControl(control);
  }
  const bool chunk_due = !transfers_.empty() && ++batches_without_chunk_ > kMaxBatchesWithoutChunk;
  uint64_t begun = begun_ + (cut_.kind == Kind::kMessage && cut_.outgoing->large ? 1 : 0);
  for (uint64_t i = front_; i < back_; ++i) {
    Outgoing* outgoing = Slot(i).outgoing;
    if (outgoing == nullptr || outgoing == cut_.outgoing) continue;
    if (planner.full()) return;
    if (chunk_due && batch.bytes >= kShortChunk) break;
    planner.PlanMessage(*outgoing, TransferAfter(begun));
    if (outgoing->large) ++begun;
  }
  // One chunk, so that the next call finds what small messages came meanwhile.
  if (cut_.kind != Kind::kChunk && !transfers_.empty() && !planner.full()) {
    batches_without_chunk_ = 0;
    Outgoing& next = *transfers_.front();
    const uint64_t piece = chunks_since_small_ < kCalmAfter ? kShortChunk : kLongChunk;
    const uint64_t left = next.message.payload_bytes() - next.payload_sent;
    next.chunk_bytes = left < 2 * piece ? left : piece;
    planner.PlanChunk(next);
  }
}

void SendQueue::Written(const SendBatch& batch, size_t bytes) {
  size_t before = std::exchange(cut_written_, 0);
  cut_ = Record{};
  for (size_t i = 0; i < batch.planned; ++i) {
    const Record& record = batch.records[i];
    const size_t left = record.bytes - std::exchange(before, 0);
    if (bytes < left) {
      cut_written_ = record.bytes - left + bytes;
      if (cut_written_ > 0) cut_ = record;
      return;
    }
    bytes -= left;
    switch (record.kind) {
      case Kind::kControl:
        control_.pop_front();
        break;
      case Kind::kMessage:
        CompleteMessage(record.outgoing);
        break;
      case Kind::kChunk:
        CompleteChunk(record.outgoing);
        break;
      case Kind::kNone:
        break;
    }
  }
}

void SendQueue::CompleteMessage(Outgoing* outgoing) {
  assert(Slot(front_).outgoing == outgoing);
  Slot(front_).outgoing = nullptr;
  TrimWaiting();
  bytes_sent_ += outgoing->message.head.size();
  if (outgoing->large) {
    ++begun_;
    transfers_.PushBack(outgoing);
    by_transfer_.emplace(outgoing->transfer, outgoing);
    if (outgoing->withdrawn) StopTransfer(outgoing, absl::OkStatus());
    return;
  }
  bytes_sent_ += outgoing->message.payload_bytes();
  ++messages_sent_;
  Leave(*outgoing);
  if (outgoing->withdrawn) {
    store_.Return(outgoing);
  } else {
    Finish(outgoing, absl::OkStatus(), true);
  }
}

void SendQueue::CompleteChunk(Outgoing* outgoing) {
  outgoing->payload_sent += outgoing->chunk_bytes;
  outgoing->turn_bytes += outgoing->chunk_bytes;
  chunks_since_small_ += outgoing->chunk_bytes;
  bytes_sent_ += outgoing->chunk_bytes;
  const bool whole = outgoing->payload_sent == outgoing->message.payload_bytes();
  if (outgoing->withdrawn && !whole) {
    StopTransfer(outgoing, absl::OkStatus());
    return;
  }
  if (!whole) {
    if (outgoing->turn_bytes >= kTransferTurn) {
      outgoing->turn_bytes = 0;
      transfers_.PushBack(transfers_.PopFront());
    }
    return;
  }
  transfers_.PopFront();
  by_transfer_.erase(outgoing->transfer);
  ++messages_sent_;
  Leave(*outgoing);
  if (outgoing->withdrawn) {
    store_.Return(outgoing);
  } else {
    Finish(outgoing, absl::OkStatus(), true);
  }
}

// Ends a transfer before its payload is out: at once between records, otherwise when the chunk that
// is under way is out.
void SendQueue::StopTransfer(Outgoing* outgoing, absl::Status status) {
  if (outgoing == cut_.outgoing) {
    if (!outgoing->withdrawn) FinishEarly(outgoing, std::move(status));
    return;
  }
  transfers_.Remove(outgoing);
  by_transfer_.erase(outgoing->transfer);
  PushControl(RecordKind::kAbort, outgoing->transfer);
  Leave(*outgoing);
  if (outgoing->withdrawn) {
    store_.Return(outgoing);
  } else {
    Finish(outgoing, std::move(status), true);
  }
}

void SendQueue::Finish(Outgoing* outgoing, absl::Status status, bool sent) {
  if (!outgoing->done) {
    store_.Return(outgoing);
    return;
  }
  outgoing->status = std::move(status);
  outgoing->sent = sent;
  finished_.PushBack(outgoing);
}

// Lets go of the sender's done while the wire still needs the message.
void SendQueue::FinishEarly(Outgoing* outgoing, absl::Status status) {
  if (outgoing->withdrawn) return;
  outgoing->withdrawn = true;
  Outgoing* notice = store_.Take();
  notice->ticket = outgoing->ticket;
  notice->done = std::move(outgoing->done);
  outgoing->done = nullptr;
  Finish(notice, std::move(status), true);
}

// A message stops counting against the limits.
void SendQueue::Leave(const Outgoing& outgoing) {
  --queued_messages_;
  (outgoing.large ? large_bytes_ : small_bytes_) -= outgoing.message.held_bytes();
  if (outgoing.large) --large_messages_;
}

void SendQueue::FailAll(const absl::Status& status) {
  const auto fail = [&](Outgoing* outgoing, bool sent) {
    Leave(*outgoing);
    if (outgoing->withdrawn) {
      store_.Return(outgoing);
    } else {
      Finish(outgoing, status, sent);
    }
  };
  while (Outgoing* outgoing = transfers_.PopFront()) fail(outgoing, true);
  for (; front_ != back_; ++front_) {
    Outgoing* outgoing = Slot(front_).outgoing;
    if (outgoing != nullptr) fail(outgoing, outgoing == cut_.outgoing);
  }
  cut_ = Record{};
  cut_written_ = 0;
  control_.clear();
  abandons_.clear();
  by_transfer_.clear();
}

SendQueue::Waiting* SendQueue::Find(Ticket ticket) {
  uint64_t low = front_;
  uint64_t high = back_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (Slot(middle).ticket < ticket) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == back_ || Slot(low).ticket != ticket || Slot(low).outgoing == nullptr) return nullptr;
  return &Slot(low);
}

// Lets go of withdrawn entries at both ends.
void SendQueue::TrimWaiting() {
  while (front_ != back_ && Slot(front_).outgoing == nullptr) ++front_;
  while (front_ != back_ && Slot(back_ - 1).outgoing == nullptr) --back_;
  if (front_ == back_ && waiting_.size() > kMaxIdleRing) std::vector<Waiting>().swap(waiting_);
}

// Makes room: closes the gaps of withdrawn messages, and doubles the ring if that is not enough.
void SendQueue::GrowWaiting() {
  std::vector<Waiting> kept;
  for (uint64_t i = front_; i < back_; ++i) {
    if (Slot(i).outgoing != nullptr) kept.push_back(Slot(i));
  }
  front_ = 0;
  back_ = kept.size();
  size_t size = std::max<size_t>(waiting_.size(), 16);
  if (kept.size() > size / 2) size *= 2;
  kept.resize(size);
  waiting_ = std::move(kept);
}

}  // namespace farcall::tcp
