// SendSlots: the slots of a connection's send queue, and the memory that is leased to requests in
// it. A slot is free when a completion of its request, or of one behind it, was polled. What a SEND
// gathers from is free then, too, or as soon as the peer says that it posted a receive in the place
// of the one that took it, whichever comes first. Pure.
//
// Not thread-safe: it belongs to the connection's driver.

#ifndef FARCALL_TRANSPORTS_RDMA_SEND_SLOTS_H_
#define FARCALL_TRANSPORTS_RDMA_SEND_SLOTS_H_

#include <cstdint>
#include <utility>

#include "farcall/rpc/buffer.h"
#include "farcall/transports/rdma/fifo.h"

namespace farcall::rdma {

class SendSlots {
 public:
  // `depth`: a power of two. `interval`: at least one in so many requests asks for a completion.
  // `count_from`: of requests and SENDs.
  SendSlots(uint32_t depth, uint32_t interval, uint32_t count_from = 0)
      : depth_(depth),
        interval_(interval),
        posted_(count_from),
        completed_(count_from),
        signaled_(count_from),
        reposted_(count_from) {}

  uint32_t free() const { return depth_ - (posted_ - completed_); }
  // All requests have completed, as far as is known.
  bool idle() const { return posted_ == completed_; }
  // The last request did not ask for a completion.
  bool tail_is_silent() const { return posted_ != signaled_; }
  // Where the next request goes, below `depth`.
  uint32_t next() const { return posted_ % depth_; }

  // Takes the next slot. True: its request must ask for a completion. Precondition: free() > 0.
  bool Take(bool wants_completion) {
    ++posted_;
    if (!wants_completion && posted_ - signaled_ < interval_) return false;
    signaled_ = posted_;
    asked_.Push(posted_);
    return true;
  }
  // A request that asked for it completed: in the order of posting.
  void Completed() {
    if (!asked_.empty()) completed_ = asked_.Pop();
    FreeLeases();
  }

  // The SEND that took the last slot, the `send`th of the connection (modulo 2^32), gathers from
  // these; either may be empty.
  void Lease(uint32_t send, Buffer first, Buffer second) {
    leases_.Push({posted_, send, std::move(first), std::move(second)});
  }
  // The peer has posted again the receives of so many SENDs.
  void Reposted(uint32_t sends) {
    reposted_ = sends;
    FreeLeases();
  }
  size_t leases() const { return leases_.size(); }
  // The queue pair is gone.
  void Clear() { leases_.Clear(); }

 private:
  struct Leased {
    uint32_t slot = 0;
    uint32_t send = 0;
    Buffer first, second;
  };

  void FreeLeases() {
    while (!leases_.empty() && (static_cast<int32_t>(completed_ - leases_.front().slot) >= 0 ||
                                static_cast<int32_t>(reposted_ - leases_.front().send) >= 0)) {
      (void)leases_.Pop();
    }
  }

  const uint32_t depth_, interval_;
  // Of requests; all count up for ever, modulo 2^32.
  uint32_t posted_, completed_, signaled_;
  uint32_t reposted_;     // of SENDs
  Fifo<uint32_t> asked_;  // those that will complete
  Fifo<Leased> leases_;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_SEND_SLOTS_H_
