#include "farcall/transports/rdma/read_queue.h"

#include <algorithm>

namespace farcall::rdma {

void ReadQueue::Add(uint32_t transfer, const ReadSegments& segments) {
  // Nothing overflows: each segment has a sink of its size.
  const bool small = segments[0].bytes + segments[1].bytes <= kSmallPayloadBytes;
  List& list = small ? small_ : large_;
  list.push_back({.id = transfer, .left = segments, .small = small});
  by_id_.emplace(transfer, std::prev(list.end()));
}

bool ReadQueue::Next(Read& read) {
  List& list = small_.empty() ? large_ : small_;
  if (out_ == depth_ || list.empty()) return false;
  Transfer& transfer = list.front();
  ReadSegment& from = transfer.left[transfer.left[0].bytes != 0 ? 0 : 1];
  read = {transfer.id, from};
  read.segment.bytes = std::min<uint64_t>(from.bytes, chunk_bytes_);
  from.remote_address += read.segment.bytes;
  from.local += read.segment.bytes;
  from.bytes -= read.segment.bytes;
  ++transfer.out;
  ++out_;
  if (transfer.all_posted()) {
    posted_.splice(posted_.end(), list, list.begin());
  } else if (!transfer.small) {
    list.splice(list.end(), list, list.begin());
  }
  return true;
}

ReadQueue::Progress ReadQueue::Completed(uint32_t transfer) {
  const auto found = by_id_.find(transfer);
  const List::iterator at = found->second;
  --at->out;
  --out_;
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
    posted_.splice(posted_.end(), at->small ? small_ : large_, at);
    at->left = {};
  }
  at->stopped = true;
  if (at->out != 0) return false;
  posted_.erase(at);
  by_id_.erase(found);
  return true;
}

}  // namespace farcall::rdma
