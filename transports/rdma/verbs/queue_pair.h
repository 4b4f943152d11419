// A queue pair of an adapter. On one thread, together with its completion queues.
//
// What adapters differ in is made up for here: depths are as asked for and not rounded up, a
// completion in error knows its request, a SEND does not complete before a READ that was posted
// first, what is posted in ERR is flushed (into shared memory of
// some software adapters one can post and will never hear of it), and completions vanish with the
// queue pair.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_QUEUE_PAIR_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/fork_guard.h"
#include "farcall/transports/rdma/verbs/cm_id.h"
#include "farcall/transports/rdma/verbs/completion_queue.h"
#include "farcall/transports/rdma/verbs/protection_domain.h"
#include "farcall/transports/rdma/verbs/work_ring.h"

namespace farcall::verbs {

// Who made the queue pair.
class QueuePairOwner {
 public:
  virtual ~QueuePairOwner() = default;
  virtual void OnQueuePairGone() = 0;  // it is being destroyed
};

class VerbsQueuePair : public rdma::QueuePair {
 public:
  // On `id`, which is bound to an adapter.
  static absl::StatusOr<std::unique_ptr<VerbsQueuePair>> Create(
      std::shared_ptr<CmId> id, std::shared_ptr<DomainCore> domain,
      const rdma::QueuePairOptions& options, QueuePairOwner& owner);
  ~VerbsQueuePair() override;

  // ---- rdma::QueuePair ----
  absl::Status PostSend(std::span<const rdma::SendRequest> requests, size_t& posted) override;
  absl::Status PostReceive(std::span<const rdma::ReceiveRequest> requests, size_t& posted) override;
  void Fail() override;
  rdma::QueuePairState state() const override { return state_; }
  uint32_t number() const override { return number_; }
  uint32_t max_inline() const override { return max_inline_; }

  // ---- for the connection ----
  void OnConnected() {
    if (state_ == rdma::QueuePairState::kInit) state_ = rdma::QueuePairState::kReadyToSend;
  }
  void Disown() { owner_ = nullptr; }

  // ---- for the completion queues ----
  // What completed. False: it was flushed already.
  bool Complete(const ibv_wc& from, AdapterWorkId id, rdma::Completion& to);
  // The next request that is flushed although the adapter does not say so. False: none, or not yet.
  bool Flush(Side side, std::chrono::steady_clock::time_point now, rdma::Completion& to);
  bool Flushed(Side side) const { return side_of(side).works.empty(); }

 private:
  using Clock = std::chrono::steady_clock;

  // The send queue or the receive queue.
  struct Queue {
    Queue(std::shared_ptr<CompletionCore> its, uint32_t depth)
        : completions(std::move(its)), works(depth) {}
    const std::shared_ptr<CompletionCore> completions;
    WorkRing works;
    uint32_t place = 0;  // on the completion queue
    // In ERR: works from here on were never given to the adapter.
    uint32_t withheld_from = 0;
  };
  struct SendList;

  VerbsQueuePair(std::shared_ptr<CmId> id, std::shared_ptr<DomainCore> domain,
                 const rdma::QueuePairOptions& options, QueuePairOwner& owner, uint32_t max_inline);
  absl::Status Prepare(const rdma::SendRequest& request, ibv_send_wr& to, ibv_sge* sges);
  absl::Status PostList(std::span<const rdma::SendRequest> requests, size_t& posted, bool& more);
  absl::Status CheckLengths(const rdma::SendRequest& request) const;
  absl::Status CannotPost() const;
  absl::Status Full(std::string_view which) const;
  void HoldBack(const ibv_wc& from, uint32_t position);
  void ReleaseInOrder();
  rdma::Completion CompletionOf(const WorkRing::Work& work) const;
  void EnterError();
  // In ERR.
  void Withhold(Queue& queue, Side side, WorkRing::Work work);
  Queue& side_of(Side side) { return side == Side::kSend ? sends_ : receives_; }
  const Queue& side_of(Side side) const { return side == Side::kSend ? sends_ : receives_; }

  const rdma::ForkGuard guard_;
  const std::shared_ptr<CmId> id_;
  const std::shared_ptr<DomainCore> domain_;
  QueuePairOwner* owner_;
  ibv_qp* const pair_;
  const uint32_t number_, max_inline_;
  const bool reorders_;  // iWARP: a SEND completes when it is on its way, before earlier READs
  rdma::QueuePairState state_ = rdma::QueuePairState::kInit;
  bool failed_ = false;  // the adapter was told
  Queue sends_, receives_;
  uint32_t furthest_done_ = 0;   // reorders_: position of a send
  Clock::time_point last_word_;  // in ERR: the adapter's last completion
};

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_QUEUE_PAIR_H_
