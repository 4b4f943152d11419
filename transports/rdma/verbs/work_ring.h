// WorkRing: the requests of a queue that were posted and have not completed, in order. Adapters
// round depths up, and do not tell of an error what it was an error of: this knows. On the queue
// pair's thread.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_WORK_RING_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_WORK_RING_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "farcall/transports/rdma/device.h"

namespace farcall::verbs {

class WorkRing {
 public:
  struct Work {
    uint64_t wr_id = 0;
    rdma::Opcode opcode = rdma::Opcode::kReceive;
    bool signaled = true;
    // What the adapter said of it before it was its turn.
    bool done = false;
    rdma::CompletionStatus status = rdma::CompletionStatus::kSuccess;
    uint32_t vendor_error = 0;
  };

  explicit WorkRing(uint32_t depth)
      : depth_(depth), works_(std::bit_ceil(std::max(depth, uint32_t{1}))) {}

  // Room for `more` behind those that are posted.
  bool HasRoom(uint32_t more = 1) const { return posted_ - completed_ + more <= depth_; }
  bool empty() const { return posted_ == completed_; }
  // Positions count modulo 2^32.
  uint32_t posted() const { return posted_; }
  uint32_t completed() const { return completed_; }

  void Post(Work work) { At(posted_++) = work; }
  // The last `count` were not taken.
  void TakeBack(uint32_t count) { posted_ -= count; }
  // With it all those before it.
  Work Complete(uint32_t position) {
    completed_ = position + 1;
    return At(position);
  }
  // One that Has.
  Work& At(uint32_t position) { return works_[position & (works_.size() - 1)]; }
  bool Has(uint32_t position) const { return position - completed_ < posted_ - completed_; }

 private:
  const uint32_t depth_;
  uint32_t posted_ = 0, completed_ = 0;
  std::vector<Work> works_;
};

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_WORK_RING_H_
