// A completion queue of an adapter. On one thread, together with its queue pairs.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_COMPLETION_QUEUE_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_COMPLETION_QUEUE_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/fork_guard.h"
#include "farcall/transports/rdma/verbs/adapter.h"

namespace farcall::verbs {

class VerbsQueuePair;
enum class Side : uint8_t { kSend, kReceive };

// What a work request is called at the adapter: the queue pair's place on its completion queue,
// which queue of it, and the position there. An error says nothing else of what failed.
struct AdapterWorkId {
  uint32_t place = 0;  // below 2^31
  Side side = Side::kSend;
  uint32_t position = 0;

  uint64_t Pack() const {
    return uint64_t{place} << 33 | uint64_t{static_cast<uint8_t>(side)} << 32 | position;
  }
  static AdapterWorkId Unpack(uint64_t id) {
    return {static_cast<uint32_t>(id >> 33), static_cast<Side>(id >> 32 & 1),
            static_cast<uint32_t>(id)};
  }
};

class CompletionCore {
 public:
  static absl::StatusOr<std::shared_ptr<CompletionCore>> Create(std::shared_ptr<Adapter> adapter,
                                                                uint32_t depth);
  ~CompletionCore();
  CompletionCore(const CompletionCore&) = delete;
  CompletionCore& operator=(const CompletionCore&) = delete;

  // ---- rdma::CompletionQueue ----
  size_t Poll(std::span<rdma::Completion> completions);
  bool Arm();
  int fd() const { return channel_->fd; }
  void Drain();
  absl::Status status();

  // ---- for queue pairs ----
  ibv_cq* get() const { return queue_; }
  const Adapter& adapter() const { return *adapter_; }
  // Its place here.
  uint32_t Add(VerbsQueuePair& pair);
  // It was destroyed at the adapter: nothing of it comes any more.
  void Remove(VerbsQueuePair& pair, uint32_t place);
  // One more for Poll.
  void Push(const rdma::Completion& completion, const VerbsQueuePair& pair) {
    ready_.push_back({completion, &pair});
  }
  // It is in ERR, with requests here that the adapter may never flush.
  void AwaitFlush(VerbsQueuePair& pair, Side side);

 private:
  struct Ready {
    rdma::Completion completion;
    const VerbsQueuePair* pair = nullptr;
  };
  struct Ending {
    VerbsQueuePair* pair = nullptr;
    Side side = Side::kSend;
  };

  CompletionCore(std::shared_ptr<Adapter> adapter, uint32_t depth, ibv_comp_channel* channel,
                 ibv_cq* queue);
  size_t TakeReady(std::span<rdma::Completion> completions);
  size_t TakeFlushed(std::span<rdma::Completion> completions);
  VerbsQueuePair* Translate(const ibv_wc& from, rdma::Completion& to);
  void AcknowledgeNotices();

  const rdma::ForkGuard guard_;
  const std::shared_ptr<Adapter> adapter_;
  const uint32_t depth_;
  ibv_comp_channel* const channel_;
  ibv_cq* const queue_;
  std::vector<VerbsQueuePair*> pairs_;  // by place
  std::vector<uint32_t> free_places_;
  std::deque<Ready> ready_;      // taken from the adapter before, or held back
  std::vector<Ending> ending_;   // see AwaitFlush
  bool armed_ = false;           // a notice is due, or waits in the channel
  unsigned unacknowledged_ = 0;  // notices
  std::atomic<bool> overrun_{false};
};

class Completions : public rdma::CompletionQueue {
 public:
  explicit Completions(std::shared_ptr<CompletionCore> core) : core_(std::move(core)) {}

  size_t Poll(std::span<rdma::Completion> completions) override { return core_->Poll(completions); }
  bool Arm() override { return core_->Arm(); }
  int fd() const override { return core_->fd(); }
  void Drain() override { core_->Drain(); }
  absl::Status status() const override { return core_->status(); }
  const std::shared_ptr<CompletionCore>& core() const { return core_; }

 private:
  const std::shared_ptr<CompletionCore> core_;
};

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_COMPLETION_QUEUE_H_
