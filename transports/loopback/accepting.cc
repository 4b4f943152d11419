#include "farcall/transports/loopback/accepting.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/loopback/connection.h"

namespace farcall::loopback {
namespace {

absl::Status Stopped(const std::string& address) {
  return absl::UnavailableError(absl::StrCat(address, ": the listener was stopped"));
}

}  // namespace

Accepting::Accepting(EndOptions options, std::vector<EventLoop*> loops,
                     Transport::Acceptor acceptor)
    : options_(std::move(options)), loops_(std::move(loops)), acceptor_(std::move(acceptor)) {}

void Accepting::Accept(std::shared_ptr<Connecting> client) {
  MutexLock lock(mutex_);
  if (stopped_) return client->Fail(Stopped(options_.local_address));
  EventLoop* loop = loops_[next_loop_++ % loops_.size()];
  loop->Post([self = shared_from_this(), loop, client = std::move(client)] {
    self->AcceptOn(*loop, *client);
  });
}

void Accepting::AcceptOn(EventLoop& loop, Connecting& client) {
  if (!client.pending()) return;
  {
    MutexLock lock(mutex_);
    if (stopped_) return client.Fail(Stopped(options_.local_address));
    ++running_;
  }
  auto clients = std::make_shared<Mailbox>();
  auto servers = std::make_shared<Mailbox>();
  EndOptions options = options_;
  options.peer_address = client.client_address();
  acceptor_(loop, std::make_unique<LoopbackConnection>(loop, std::move(options), servers, clients));
  client.Succeed(std::move(clients), std::move(servers));

  MutexLock lock(mutex_);
  if (--running_ == 0) none_running_.notify_all();
}

void Accepting::Stop() {
  const bool drives = std::any_of(loops_.begin(), loops_.end(),
                                  [](const EventLoop* loop) { return loop->IsDriver(); });
  std::unique_lock lock(mutex_.native());
  [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { stopped_ = true; }();
  if (drives) return;
  none_running_.wait(lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return running_ == 0; });
}

}  // namespace farcall::loopback
