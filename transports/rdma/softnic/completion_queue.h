// A completion queue of the software NIC, and the place where it works: Poll drives the queue pairs
// that complete here.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_COMPLETION_QUEUE_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_COMPLETION_QUEUE_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/fork_guard.h"
#include "farcall/transports/rdma/softnic/file_descriptor.h"
#include "farcall/transports/rdma/softnic/roster.h"
#include "farcall/transports/rdma/softnic/shared_memory.h"

namespace farcall::softnic {

enum class Side : uint8_t { kSend, kReceive };

class CompletionCore {
 public:
  static absl::StatusOr<std::shared_ptr<CompletionCore>> Create(uint32_t depth);

  // ---- for queue pairs ----

  Roster& roster() { return roster_; }
  // What the pair completed here is gone.
  void Forget(const SoftQueuePair& pair);
  // The pair's control socket makes fd() readable.
  void Watch(int socket, SoftQueuePair& pair);
  void Unwatch(int socket);
  // `released`: what SoftQueuePair::Release gets when this is polled.
  void Push(const rdma::Completion& completion, SoftQueuePair& pair, Side side, uint32_t released);
  // A doorbell was taken that nobody has acted on: who is about to sleep must not.
  void PassOn() {
    if (armed_) Notify();
  }
  // As if one completion too many had come.
  void Overrun();

  // ---- rdma::CompletionQueue ----

  size_t Poll(std::span<rdma::Completion> completions);
  bool Arm();
  int fd() const { return epoll_.get(); }
  void Drain();
  absl::Status status() const;

 private:
  struct Entry {
    rdma::Completion completion;
    SoftQueuePair* pair = nullptr;  // null: it is gone, and so is its completion
    Side side = Side::kSend;
    uint32_t released = 0;
  };

  CompletionCore(uint32_t depth, FileDescriptor epoll, FileDescriptor notice, Mapping memory);
  void Notify();

  const rdma::ForkGuard guard_;
  const uint32_t depth_;
  const FileDescriptor epoll_;   // the notice and the control sockets of all pairs
  const FileDescriptor notice_;  // an eventfd, for completions that are made on this thread
  Roster roster_;
  // A power of two, at least depth_. Begins anew whenever it is empty: what is used is what waited
  // at once, and in the caches.
  const Mapping memory_;
  Entry* const ring_;
  const uint32_t mask_;
  uint32_t pushed_ = 0, polled_ = 0;
  bool armed_ = false;
  bool polling_ = false;
  bool overrun_ = false;
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

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_COMPLETION_QUEUE_H_
