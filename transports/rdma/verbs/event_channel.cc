#include "farcall/transports/rdma/verbs/event_channel.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "farcall/transports/rdma/verbs/errors.h"
#include "farcall/transports/rdma/verbs/limits.h"

namespace farcall::verbs {

absl::StatusOr<std::shared_ptr<ChannelCore>> ChannelCore::Create(std::shared_ptr<Adapter> adapter) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) {
    return SystemError("opening the RDMA connection manager (/dev/infiniband/rdma_cm)", errno);
  }
  ::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  // From here on the destructor closes what there is.
  const int async = adapter->async_fd();
  std::shared_ptr<ChannelCore> core(new ChannelCore(std::move(adapter), channel,
                                                    ::epoll_create1(EPOLL_CLOEXEC),
                                                    ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  // A sleeper is woken by what the adapter says beside completions, too.
  if (!core->Watch(channel->fd) || !core->Watch(core->notice_) || !core->Watch(async)) {
    return SystemError("making an event channel", errno);
  }
  return core;
}

ChannelCore::~ChannelCore() {
  ::close(epoll_);
  ::close(notice_);
  if (!guard_.inherited()) rdma_destroy_event_channel(channel_);
}

bool ChannelCore::Watch(int fd) const {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void ChannelCore::Notify() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(notice_, &one, sizeof one);
}

void ChannelCore::Push(rdma::ConnectionEvent event) {
  if (guard_.inherited()) return;
  MutexLock lock(mutex_);
  events_.push_back(std::move(event));
  Notify();
}

void ChannelCore::Run(std::function<void()> task) {
  if (guard_.inherited()) return;
  MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  Notify();
}

void ChannelCore::Forget(const rdma::ConnectionId* id) {
  MutexLock lock(mutex_);
  std::erase_if(events_, [&](const rdma::ConnectionEvent& event) { return event.id == id; });
}

void ChannelCore::Forget(const rdma::AddressListener* listener) {
  // Destroyed when they are out of the queue, and the lock is free: a request forgets its own.
  std::deque<rdma::ConnectionEvent> kept, dropped;
  MutexLock lock(mutex_);
  for (rdma::ConnectionEvent& event : events_) {
    (event.listener == listener ? dropped : kept).push_back(std::move(event));
  }
  events_ = std::move(kept);
}

void ChannelCore::TakeNotices() {
  uint64_t notices = 0;
  [[maybe_unused]] const ssize_t got = ::read(notice_, &notices, sizeof notices);
  std::vector<std::function<void()>> tasks;
  {
    MutexLock lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const std::function<void()>& task : tasks) task();
}

// False: the connection manager has nothing to say.
bool ChannelCore::ReadOne() {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel_, &event) != 0) return false;
  // A request is its listener's until it is given to somebody.
  rdma_cm_id* const id =
      event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id : event->id;
  if (id->context != nullptr) static_cast<CmTarget*>(id->context)->OnCmEvent(*event);
  // Until now whoever moves or destroys the id waits, so it was safe to look at.
  rdma_ack_cm_event(event);
  return true;
}

std::optional<rdma::ConnectionEvent> ChannelCore::Next() {
  if (guard_.inherited()) return std::nullopt;
  bool looked = false;
  for (int i = 0; i < kEventsPerNext; ++i) {
    {
      MutexLock lock(mutex_);
      if (!events_.empty()) {
        std::optional<rdma::ConnectionEvent> event(std::move(events_.front()));
        events_.pop_front();
        return event;
      }
    }
    if (!std::exchange(looked, true)) {
      TakeNotices();
      adapter_->ReadAsyncEvents();
    } else if (!ReadOne()) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace farcall::verbs
