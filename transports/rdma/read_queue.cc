#include "farcall/transports/rdma/read_queue.h"

#include <algorithm>
#include <utility>

namespace farcall::rdma {

void ReadQueue::Add(uint32_t transfer, const ReadSegments& segments) {
  // Nothing overflows: each segment has a sink of its size.
  const bool small = segments[0].bytes + segments[1].bytes <= kSmallPayloadBytes;
  List& list = small ? small_ : beginning_;
  Transfer& added = list.emplace_back();
  added.id = transfer;
  added.left = segments;
  added.small = small;
  by_id_.emplace(transfer, std::prev(list.end()));
}

// Where one with bytes to post is.
ReadQueue::List& ReadQueue::ListOf(const Transfer& transfer) {
  if (transfer.small) return small_;
  return transfer.posted < kFirstTurnBytes ? beginning_ : large_;
}

// Where the next READ comes from; nullptr: none may be posted.
ReadQueue::List* ReadQueue::NextList() {
  if (out_ == depth_) return nullptr;
  if (!small_.empty()) return &small_;
  if (large_out_ == large_depth_ || (beginning_.empty() && large_.empty())) return nullptr;
  beginning_had_last_ = large_.empty() || (!beginning_.empty() && !beginning_had_last_);
  return beginning_had_last_ ? &beginning_ : &large_;
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
  if (!transfer.small) ++large_out_;
  if (transfer.all_posted()) {
    posted_.splice(posted_.end(), *list, list->begin());
  } else if (&ListOf(transfer) == &large_) {  // its turn is over, the first or a later one
    large_.splice(large_.end(), *list, list->begin());
  }
  return true;
}

ReadQueue::Progress ReadQueue::Completed(uint32_t transfer) {
  const auto found = by_id_.find(transfer);
  const List::iterator at = found->second;
  --at->out;
  --out_;
  if (!at->small) --large_out_;
  if (at->out != 0 || !at->all_posted()) return Progress::kMore;
  const bool stopped = at->stopped;
  posted_.erase(at);
  by_id_.erase(found);
  return stopped ? Progress::kDrained : Progress::kArrived;
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
  posted_.erase(at);
  by_id_.erase(found);
  return true;
}

}  // namespace farcall::rdma
