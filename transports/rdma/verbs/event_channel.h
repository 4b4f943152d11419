// Connection events: the connection manager's, and what this device has to say itself. The events
// of a channel are taken by one thread; what puts them there may be another.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_EVENT_CHANNEL_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_EVENT_CHANNEL_H_

#include <rdma/rdma_cma.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/mutex.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/fork_guard.h"
#include "farcall/transports/rdma/verbs/adapter.h"

namespace farcall::verbs {

// What an rdma_cm_id's context points to: told of its events, by the taker of its channel.
class CmTarget {
 public:
  virtual ~CmTarget() = default;
  // `event` is acknowledged afterwards: what is needed of it is copied.
  virtual void OnCmEvent(const rdma_cm_event& event) = 0;
};

class ChannelCore {
 public:
  static absl::StatusOr<std::shared_ptr<ChannelCore>> Create(std::shared_ptr<Adapter> adapter);
  ~ChannelCore();
  ChannelCore(const ChannelCore&) = delete;
  ChannelCore& operator=(const ChannelCore&) = delete;

  rdma_event_channel* get() const { return channel_; }
  int fd() const { return epoll_; }
  std::optional<rdma::ConnectionEvent> Next();

  // ---- any thread ----
  void Push(rdma::ConnectionEvent event);
  // The taker of events runs it.
  void Run(std::function<void()> task);
  // No event of these comes any more.
  void Forget(const rdma::ConnectionId* id);
  void Forget(const rdma::AddressListener* listener);

 private:
  ChannelCore(std::shared_ptr<Adapter> adapter, rdma_event_channel* channel, int epoll, int notice)
      : adapter_(std::move(adapter)), channel_(channel), epoll_(epoll), notice_(notice) {}
  bool Watch(int fd) const;
  void Notify() const;
  void TakeNotices();
  bool ReadOne();

  const rdma::ForkGuard guard_;
  const std::shared_ptr<Adapter> adapter_;
  rdma_event_channel* const channel_;
  const int epoll_, notice_;
  Mutex mutex_;
  std::deque<rdma::ConnectionEvent> events_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
};

class Channel : public rdma::EventChannel {
 public:
  explicit Channel(std::shared_ptr<ChannelCore> core) : core_(std::move(core)) {}

  int fd() const override { return core_->fd(); }
  std::optional<rdma::ConnectionEvent> Next() override { return core_->Next(); }
  const std::shared_ptr<ChannelCore>& core() const { return core_; }

 private:
  const std::shared_ptr<ChannelCore> core_;
};

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_EVENT_CHANNEL_H_
