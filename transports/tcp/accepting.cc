#include "farcall/transports/tcp/accepting.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/log.h"
#include "farcall/transports/tcp/errors.h"

namespace farcall::tcp {
namespace {

// Accepted in one turn: a flood of connects leaves the loop's other connections their share.
constexpr int kAcceptsPerTurn = 64;

void LogWarning(std::string_view name, std::string_view what) {
  if (!LogEnabled(LogLevel::kWarning)) return;
  Log(LogLevel::kWarning, std::string(name).append(": ").append(what));
}

}  // namespace

Accepting::Accepting(std::string name, Descriptor socket, std::vector<EventLoop*> loops,
                     Transport::Acceptor acceptor, std::shared_ptr<const Settings> settings)
    : name_(std::move(name)),
      loops_(std::move(loops)),
      acceptor_(std::move(acceptor)),
      settings_(std::move(settings)),
      unopened_(std::move(socket)) {
  listening_ = unopened_.get();
}

void Accepting::Start() {
  loops_.front()->Post([self = shared_from_this()] { self->Open(); });
}

void Accepting::Stop() {
  {
    std::unique_lock<std::mutex> lock(mutex_.native());
    // A driver that stops its listener from inside the acceptor does not wait for itself, and
    // nobody else waits for it.
    std::erase(accepting_, std::this_thread::get_id());
    if (!std::exchange(stopped_, true)) ::shutdown(listening_, SHUT_RDWR);
    acceptor_left_.notify_all();
    while (!accepting_.empty()) acceptor_left_.wait(lock);
  }
  loops_.front()->Post([self = shared_from_this()] { self->CloseSocket(); });
}

// ---- first loop ----

void Accepting::Open() {
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
  }
  boost::system::error_code error;
  socket_.emplace(loops_.front()->io());
  socket_->assign(unopened_.get(), error);
  if (error) {
    LogWarning(name_, absl::StrCat("accepts nothing: registering the socket: ", error.message()));
    return;
  }
  unopened_.release();
  Wait();
}

void Accepting::Wait() {
  socket_->async_wait(Socket::wait_read,
                      [self = shared_from_this()](const boost::system::error_code& error) {
                        if (!error && self->socket_) self->OnReadable();
                      });
}

void Accepting::OnReadable() {
  for (int accepts = 0; accepts < kAcceptsPerTurn; ++accepts) {
    if (!AcceptOne()) return;
  }
  Wait();
}

// False: what follows has been arranged.
bool Accepting::AcceptOne() {
  Descriptor descriptor(
      ::accept4(socket_->native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!descriptor) {
    const int error = errno;
    switch (error) {
      case EAGAIN:
        Wait();
        return false;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        OnOutOfResources(error);
        return false;
      case EINVAL:  // stopped: the socket listens no more
      case EBADF:
        return false;
      default:  // of the connection, which is gone: the peer's reset, a network error
        return true;
    }
  }
  out_of_resources_ = false;
  EventLoop& loop = *loops_[next_loop_];
  next_loop_ = (next_loop_ + 1) % loops_.size();
  if (&loop == loops_.front()) {
    Deliver(loop, std::move(descriptor));
  } else {
    loop.Post([self = shared_from_this(), &loop, descriptor = std::move(descriptor)]() mutable {
      self->Deliver(loop, std::move(descriptor));
    });
  }
  return true;
}

// The connection stays in the kernel's queue, readable for ever: look again after a while.
void Accepting::OnOutOfResources(int error) {
  if (!std::exchange(out_of_resources_, true)) {
    LogWarning(name_, absl::StrCat("cannot accept connections for the moment: ", ErrorText(error)));
  }
  EventLoop& loop = *loops_.front();
  loop.timers().Arm(pause_, loop.now() + kAcceptPause);
}

void Accepting::CloseSocket() {
  pause_.Disarm();
  socket_.reset();
  unopened_.Reset();
}

// ---- the connection's loop ----

void Accepting::Deliver(EventLoop& loop, Descriptor descriptor) {
  if (!EnterAcceptor()) return;
  auto connection = MakeConnection(loop, std::move(descriptor), *settings_);
  if (connection.ok()) {
    acceptor_(loop, *std::move(connection));
  } else {
    LogWarning(name_, absl::StrCat("dropped a connection: ", connection.status().message()));
  }
  LeaveAcceptor();
}

bool Accepting::EnterAcceptor() {
  MutexLock lock(mutex_);
  if (stopped_) return false;
  accepting_.push_back(std::this_thread::get_id());
  return true;
}

void Accepting::LeaveAcceptor() {
  MutexLock lock(mutex_);
  const auto self = std::find(accepting_.begin(), accepting_.end(), std::this_thread::get_id());
  if (self == accepting_.end()) return;  // Stop was called inside
  accepting_.erase(self);
  if (stopped_) acceptor_left_.notify_all();
}

}  // namespace farcall::tcp
