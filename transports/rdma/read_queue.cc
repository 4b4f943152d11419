#include "farcall/transports/rdma/read_queue.h"

#include <algorithm>
#include <utility>

namespace farcall::rdma {

bool ReadQueue::MayBegin(Length length) const {
  switch (length) {
    case Length::kSmall:
      return true;
    case Length::kMedium:
      return lanes_[kMediums].empty() && mediums_to_come_ < kReadAhead;
    case Length::kLong:
      break;
  }
  return lanes_[kBeginning].empty();
}

void ReadQueue::Add(uint32_t transfer, const ReadSegments& segments) {
  // Nothing overflows: each segment has a sink of its size.
  Transfer added;
  added.id = transfer;
  added.left = segments;
  added.to_come = segments[0].bytes + segments[1].bytes;
  added.length = LengthOf(added.to_come);
  if (added.length == Length::kMedium) mediums_to_come_ += added.to_come;
  List& list = ListOf(added);
  list.push_back(added);
  by_id_.emplace(transfer, std::prev(list.end()));
}

// Where one with bytes to post is.
ReadQueue::List& ReadQueue::ListOf(const Transfer& transfer) {
  switch (transfer.length) {
    case Length::kSmall:
      return small_;
    case Length::kMedium:
      return lanes_[kMediums];
    case Length::kLong:
      break;
  }
  return lanes_[transfer.posted < kFirstTurnBytes ? kBeginning : kTurns];
}

// Where the next READ comes from; nullptr: none may be posted.
ReadQueue::List* ReadQueue::NextList() {
  if (out_ == depth_) return nullptr;
  if (!small_.empty()) return &small_;
  for (size_t i = 1; i <= kLanes; ++i) {
    const size_t lane = (last_lane_ + i) % kLanes;
    if (lanes_[lane].empty()) continue;
    last_lane_ = lane;
    return &lanes_[lane];
  }
  return nullptr;
}

bool ReadQueue::Next(Read& read) {
  List* const list = NextList();
  if (list == nullptr) return false;
  Transfer& transfer = list->front();
  ReadSegment& from = transfer.left[transfer.left[0].bytes != 0 ? 0 : 1];
  read = {transfer.id, from};
  read.segment.bytes = std::min<uint64_t>(from.bytes, chunk_bytes_);
  from.remote_address += read.segment.bytes;
  from.local += read.segment.bytes;
  from.bytes -= read.segment.bytes;
  transfer.posted += read.segment.bytes;
  ++transfer.out;
  ++out_;
  if (transfer.all_posted()) {
    posted_.splice(posted_.end(), *list, list->begin());
  } else if (List& turns = lanes_[kTurns]; &ListOf(transfer) == &turns) {  // this one is over
    turns.splice(turns.end(), *list, list->begin());
  }
  return true;
}

ReadQueue::Progress ReadQueue::Completed(uint32_t transfer) {
  const auto found = by_id_.find(transfer);
  const List::iterator at = found->second;
  --at->out;
  --out_;
  if (at->out != 0 || !at->all_posted()) {
    Came(*at, chunk_bytes_);
    return Progress::kMore;
  }
  Came(*at, at->to_come);
  const bool stopped = at->stopped;
  posted_.erase(at);
  by_id_.erase(found);
  return stopped ? Progress::kDrained : Progress::kArrived;
}

// Of a transfer: nothing more is to come of as many bytes.
void ReadQueue::Came(Transfer& transfer, uint64_t bytes) {
  bytes = std::min(bytes, transfer.to_come);
  transfer.to_come -= bytes;
  if (transfer.length == Length::kMedium) mediums_to_come_ -= bytes;
}

bool ReadQueue::Stop(uint32_t transfer) {
  const auto found = by_id_.find(transfer);
  const List::iterator at = found->second;
  if (!at->all_posted()) {
    posted_.splice(posted_.end(), ListOf(*at), at);
    at->left = {};
  }
  at->stopped = true;
  if (at->out != 0) return false;
  Came(*at, at->to_come);
  posted_.erase(at);
  by_id_.erase(found);
  return true;
}

}  // namespace farcall::rdma
