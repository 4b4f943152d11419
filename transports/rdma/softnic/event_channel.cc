#include "farcall/transports/rdma/softnic/event_channel.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farcall::softnic {
namespace {

constexpr int kMostSocketsANext = 64;  // a flood of them does not keep the caller here

}  // namespace

absl::StatusOr<std::shared_ptr<ChannelCore>> ChannelCore::Create() {
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  FileDescriptor notice(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (!epoll || !notice || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, notice.get(), &event) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("softnic: no event channel: ", std::strerror(errno),
                     "; look at the limit of open files (ulimit -n)"));
  }
  return std::shared_ptr<ChannelCore>(new ChannelCore(std::move(epoll), std::move(notice)));
}

void ChannelCore::Watch(int socket, bool until_end, Watched& watched) {
  epoll_event event{.events = until_end ? EPOLLRDHUP : EPOLLIN | EPOLLRDHUP,
                    .data = {.ptr = &watched}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) != 0) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &event);
  }
}

void ChannelCore::Unwatch(int socket) {
  if (!guard_.inherited()) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
}

void ChannelCore::Push(rdma::ConnectionEvent event) {
  if (guard_.inherited()) return;
  events_.push_back(std::move(event));
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(notice_.get(), &one, sizeof one);
}

void ChannelCore::Forget(const rdma::ConnectionId* id) {
  std::erase_if(events_, [&](const rdma::ConnectionEvent& event) { return event.id == id; });
}

void ChannelCore::Forget(const rdma::AddressListener* listener) {
  // Destroyed when they are out of the queue: a request forgets its own events here.
  std::deque<rdma::ConnectionEvent> kept, dropped;
  for (rdma::ConnectionEvent& event : events_) {
    (event.listener == listener ? dropped : kept).push_back(std::move(event));
  }
  events_ = std::move(kept);
}

std::optional<rdma::ConnectionEvent> ChannelCore::Next() {
  if (guard_.inherited()) return std::nullopt;
  for (int i = 0; events_.empty() && i < kMostSocketsANext; ++i) {
    epoll_event ready{};
    // One at a time: whoever is told may destroy what the next would be about.
    if (::epoll_wait(epoll_.get(), &ready, 1, 0) <= 0) return std::nullopt;
    if (ready.data.ptr != nullptr) {
      static_cast<Watched*>(ready.data.ptr)->OnReadable();
    } else {
      uint64_t notices = 0;
      [[maybe_unused]] const ssize_t got = ::read(notice_.get(), &notices, sizeof notices);
    }
  }
  if (events_.empty()) return std::nullopt;
  std::optional<rdma::ConnectionEvent> event(std::move(events_.front()));
  events_.pop_front();
  return event;
}

}  // namespace farcall::softnic
