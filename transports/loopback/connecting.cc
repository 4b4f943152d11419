#include "farcall/transports/loopback/connecting.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farcall::loopback {

Connecting::Connecting(EventLoop& loop, EndOptions options, Transport::ConnectDone done)
    : options_(std::move(options)), done_(std::move(done)), loop_(&loop) {}

void Connecting::SetDeadline(TimePoint deadline) {
  MutexLock lock(mutex_);
  if (loop_ != nullptr) loop_->timers().Arm(*this, deadline);
}

void Connecting::Cancel() {
  End();
  Disarm();
  done_ = nullptr;
}

bool Connecting::pending() {
  MutexLock lock(mutex_);
  return loop_ != nullptr;
}

void Connecting::Succeed(std::shared_ptr<Mailbox> clients, std::shared_ptr<Mailbox> servers) {
  MutexLock lock(mutex_);
  if (loop_ == nullptr) return servers->PutPeerGone();
  loop_->Post([self = shared_from_this(), clients = std::move(clients),
               servers = std::move(servers)]() mutable {
    EventLoop* loop = self->End();
    if (loop == nullptr) return servers->PutPeerGone();
    self->Complete(std::make_unique<LoopbackConnection>(*loop, std::move(self->options_),
                                                        std::move(clients), std::move(servers)));
  });
}

void Connecting::Fail(absl::Status status) {
  MutexLock lock(mutex_);
  if (loop_ == nullptr) return;
  loop_->Post([self = shared_from_this(), status = std::move(status)]() mutable {
    if (self->End() != nullptr) self->Complete(std::move(status));
  });
}

void Connecting::OnTimer() {
  if (End() == nullptr) return;
  const auto self = shared_from_this();  // `done` may drop the handle
  Complete(absl::DeadlineExceededError(
      absl::StrCat(options_.peer_address, ": the server's loop did not accept in time")));
}

EventLoop* Connecting::End() {
  MutexLock lock(mutex_);
  return std::exchange(loop_, nullptr);
}

void Connecting::Complete(absl::StatusOr<std::unique_ptr<Connection>> result) {
  Disarm();
  std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace farcall::loopback
