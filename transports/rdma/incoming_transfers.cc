#include "farcall/transports/rdma/incoming_transfers.h"

#include <algorithm>
#include <cassert>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"

namespace farcall::rdma {
namespace {

constexpr char kRemedy[] =
    ": release buffers sooner, or raise RdmaOptions::connection_pool_bytes or receive_pool_bytes";

absl::Status NoMemoryFor(const MessageSizes& sizes, std::string_view why) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "no memory to receive a payload of ", sizes.body + sizes.attachment, " bytes: ", Absl(why)));
}

}  // namespace

bool IncomingTransfers::After(uint32_t transfer) const {
  return static_cast<int32_t>(transfer - last_) > 0;
}

absl::Status IncomingTransfers::Announce(const Envelope& rts) {
  if (!After(rts.transfer) || transfers_.contains(rts.transfer)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the numbers of transfers count up: an RTS after ", last_, " is not for ", rts.transfer));
  }
  if (unanswered_ >= limits_.max_open) {
    return absl::InvalidArgumentError(
        absl::StrCat("at most ", limits_.max_open, " RTS are without a FIN, not one more"));
  }
  last_ = rts.transfer;
  ++unanswered_;
  return absl::OkStatus();
}

void IncomingTransfers::Refuse(uint32_t transfer, const absl::Status& status) {
  Push(incoming::kSendFin, transfer).status = status;
}

void IncomingTransfers::Accept(const Envelope& rts, Ticket ticket, Message message, TimePoint now) {
  const auto [at, inserted] = transfers_.try_emplace(rts.transfer);
  assert(inserted);
  Transfer& transfer = at->second;
  transfer.ticket = ticket;
  transfer.message = std::move(message);
  transfer.sizes = rts.sizes;
  transfer.body = rts.body;
  transfer.attachment = rts.attachment;
  transfer.since = now;
  by_ticket_.emplace(ticket, rts.transfer);
  WaitingLike(transfer).emplace(ticket, rts.transfer);
  // One that is larger than the limit may come alone.
  const uint64_t limit = std::max(limits_.max_announced_bytes, announced_);
  if (announced_ == 0 || rts.payload() <= limit - announced_) {
    transfer.counted = rts.payload();
    announced_ += transfer.counted;
    return;
  }
  Handle(at, Event::kNoMemory,
         NoMemoryFor(rts.sizes, absl::StrCat("the peer has announced ", announced_,
                                             " others that are not finished, and "
                                             "max_announced_bytes is ",
                                             limits_.max_announced_bytes)));
}

bool IncomingTransfers::LargeWait() const {
  return !waiting_[static_cast<size_t>(Length::kMedium)].empty() ||
         !waiting_[static_cast<size_t>(Length::kLong)].empty();
}

bool IncomingTransfers::waiting() const {
  return LargeWait() || !waiting_[static_cast<size_t>(Length::kSmall)].empty();
}

// The shorter ones first, of a length the oldest. But no medium or long one takes what one that
// was asked for in vain waits for.
std::optional<IncomingTransfers::Wanted> IncomingTransfers::WantsMemory(const ReadQueue& reads) {
  std::optional<uint32_t> id;
  for (const Length length : {Length::kSmall, Length::kMedium, Length::kLong}) {
    const auto& waiting = waiting_[static_cast<size_t>(length)];
    if (waiting.empty() || !reads.MayBegin(length)) continue;
    id = length != Length::kSmall && starved_ ? *starved_ : waiting.begin()->second;
    break;
  }
  if (!id) return std::nullopt;
  Transfer& transfer = transfers_.find(*id)->second;
  if (!reads.MayBegin(transfer.length())) return std::nullopt;
  return Wanted{*id, transfer.sizes, &transfer.message};
}

void IncomingTransfers::Memory(uint32_t transfer) {
  const auto at = transfers_.find(transfer);
  if (!at->second.small()) starved_since_.reset();
  Handle(at, Event::kMemory, absl::OkStatus());
}

bool IncomingTransfers::NoMemory(uint32_t transfer, TimePoint now) {
  const auto at = transfers_.find(transfer);
  if (!at->second.small()) {
    if (!starved()) starved_since_ = now;
    starved_ = transfer;
    return false;
  }
  Handle(at, Event::kNoMemory,
         NoMemoryFor(at->second.sizes, absl::StrCat("the receive pool is used up", kRemedy)));
  return true;
}

void IncomingTransfers::ExpireWaiting(TimePoint now) {
  for (const Length length : {Length::kMedium, Length::kLong}) {
    auto& waiting = waiting_[static_cast<size_t>(length)];
    while (starved() && !waiting.empty()) {  // the oldest is the first
      const auto at = transfers_.find(waiting.begin()->second);
      if (now - std::max(at->second.since, *starved_since_) <= limits_.max_memory_wait) break;
      Handle(
          at, Event::kNoMemory,
          NoMemoryFor(at->second.sizes, absl::StrCat("the receive pool stayed used up", kRemedy)));
    }
  }
}

bool IncomingTransfers::Abandon(Ticket ticket, const absl::Status& status) {
  const auto found = by_ticket_.find(ticket);
  if (found == by_ticket_.end()) return false;
  Handle(transfers_.find(found->second), Event::kAbandon, status);
  return true;
}

absl::Status IncomingTransfers::Cancel(uint32_t transfer) {
  const auto at = transfers_.find(transfer);
  if (at != transfers_.end()) {
    Handle(at, Event::kCancel, absl::CancelledError("its sender gave the payload up"));
    return absl::OkStatus();
  }
  if (!After(transfer)) return absl::OkStatus();  // its FIN crossed the CANCEL
  return absl::InvalidArgumentError(
      absl::StrCat("a CANCEL is for a transfer that was announced, not for ", transfer));
}

void IncomingTransfers::Arrived(uint32_t transfer) {
  Handle(transfers_.find(transfer), Event::kArrived, absl::OkStatus());
}

void IncomingTransfers::Drained(uint32_t transfer) {
  const auto at = transfers_.find(transfer);
  Handle(at, Event::kDrained, absl::Status(at->second.reason));
}

void IncomingTransfers::Error() { HandleAll(Event::kError); }

void IncomingTransfers::Destroyed() { HandleAll(Event::kDestroyed); }

void IncomingTransfers::HandleAll(Event event) {
  std::vector<std::pair<Ticket, uint32_t>> all;
  all.reserve(transfers_.size());
  for (const auto& [id, transfer] : transfers_) all.emplace_back(transfer.ticket, id);
  std::sort(all.begin(), all.end());
  for (const auto& [ticket, id] : all) Handle(transfers_.find(id), event, absl::OkStatus());
}

void IncomingTransfers::Handle(Table::iterator at, Event event, const absl::Status& status) {
  const Step<State> step = incoming::Next(at->second.state, event);
  assert(step.verdict == Verdict::kStep || step.verdict == Verdict::kIgnore);
  if (step.verdict != Verdict::kStep) return;
  Act(at, step.actions, status);
  Enter(at, step.to);
}

IncomingTransfers::Action& IncomingTransfers::Push(incoming::Action what, uint32_t transfer) {
  Action& action = actions_.emplace_back();
  action.what = what;
  action.transfer = transfer;
  return action;
}

void IncomingTransfers::Act(Table::iterator at, uint8_t actions, const absl::Status& status) {
  auto& [id, transfer] = *at;
  if ((actions & incoming::kStartReads) != 0) {
    Push(incoming::kStartReads, id).segments = Segments(transfer);
  }
  if ((actions & incoming::kStopReads) != 0) {
    Push(incoming::kStopReads, id);
    transfer.reason = status;
  }
  if ((actions & incoming::kSendFin) != 0) Push(incoming::kSendFin, id).status = status;
  if ((actions & incoming::kDeliver) != 0) {
    Action& action = Push(incoming::kDeliver, id);
    action.ticket = transfer.ticket;
    action.message = std::move(transfer.message);
  }
  if ((actions & incoming::kTell) != 0) {
    Action& action = Push(incoming::kTell, id);
    action.ticket = transfer.ticket;
    action.status = status;
    by_ticket_.erase(transfer.ticket);
  }
  if ((actions & incoming::kRelease) != 0) {
    Push(incoming::kRelease, id).message = std::move(transfer.message);
  }
}

void IncomingTransfers::Enter(Table::iterator at, State to) {
  auto& [id, transfer] = *at;
  if (transfer.state == State::kWaiting) {
    WaitingLike(transfer).erase({transfer.ticket, id});
    if (starved_ == id) starved_.reset();
    if (!LargeWait()) starved_since_.reset();
  }
  transfer.state = to;
  if (to != State::kEnded) return;
  announced_ -= transfer.counted;
  by_ticket_.erase(transfer.ticket);
  transfers_.erase(at);
}

ReadSegments IncomingTransfers::Segments(Transfer& transfer) {
  const auto segment = [](const Region& from, Buffer& to, uint64_t bytes) {
    ReadSegment row;
    if (bytes == 0) return row;
    row.remote_address = from.address;
    row.rkey = from.rkey;
    row.local = to.data();
    row.local_region = to.slot()->region;
    row.bytes = bytes;
    return row;
  };
  return {segment(transfer.body, transfer.message.body, transfer.sizes.body),
          segment(transfer.attachment, transfer.message.attachment, transfer.sizes.attachment)};
}

}  // namespace farcall::rdma
