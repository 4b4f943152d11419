#include "farcall/transports/rdma/accepting.h"

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/log.h"
#include "farcall/rpc/timer_wheel.h"
#include "farcall/transports/rdma/connection.h"
#include "farcall/transports/rdma/limits.h"
#include "farcall/transports/rdma/loop_device.h"
#include "farcall/transports/rdma/wire.h"

namespace farcall::rdma {
namespace {

// Says why, as far as it fits.
void Reject(ConnectionId& request, const absl::Status& why) {
  const std::string_view text = Std(why.message());
  request.Reject(std::as_bytes(std::span(text)).first(std::min(text.size(), kMaxReasonBytes)))
      .IgnoreError();  // then it sees the end of the connection
}

}  // namespace

// A request that was answered, until the peer says that it is established. On its loop.
class Acceptance final : public std::enable_shared_from_this<Acceptance>, public ConnectionOwner {
 public:
  Acceptance(std::shared_ptr<Accepting> accepting, EventLoop& loop)
      : accepting_(std::move(accepting)), loop_(loop) {}

  EventLoop& loop() { return loop_; }

  // `crowded`: too many are here already.
  void Answer(ConnectionEvent event, bool crowded) {
    const std::shared_ptr<Device> own = event.request->device();
    absl::StatusOr<std::shared_ptr<LoopDevice>> device =
        LoopDevice::Of(loop_, own != nullptr ? own : accepting_->device());
    absl::Status answered = device.ok() ? TryAnswer(event, *device, crowded) : device.status();
    if (answered.ok()) return;
    const std::string line =
        absl::StrCat(accepting_->name(), ": dropped a connection: ", answered.message());
    if (absl::IsCancelled(answered)) {  // the caller went
      Log(LogLevel::kInfo, line);
    } else if (LogThrottle first; LogEnabled(LogLevel::kWarning)) {
      (device.ok() ? (*device)->warnings() : first).Warn(loop_.now(), line);
    }
    Drop();
  }

  void Drop() {
    const auto keep = shared_from_this();
    alarm_.Disarm();
    if (wire_ != nullptr) std::exchange(wire_, nullptr)->GiveUp();
    accepting_->Done(*this);
  }

 private:
  class Alarm final : public Timer {
   public:
    explicit Alarm(Acceptance& acceptance) : acceptance_(acceptance) {}
    void OnTimer() override { acceptance_.Drop(); }

   private:
    Acceptance& acceptance_;
  };

  absl::Status TryAnswer(ConnectionEvent& event, const std::shared_ptr<LoopDevice>& device,
                         bool crowded) {
    // First of all: from now on the request has to do with this loop only.
    absl::Status moved = event.request->MoveTo(device->channel());
    if (!moved.ok()) return moved;
    const ConnectionId& id = *event.request;
    Parameters peer;
    absl::Status met =
        crowded ? absl::ResourceExhaustedError("too many connections are being accepted: try again")
                : Wire::CheckPeer(event, peer);
    if (!met.ok()) {
      Reject(*event.request, met);
      return met;
    }
    absl::StatusOr<std::shared_ptr<Wire>> wire = Wire::Create(
        device, std::move(event.request), accepting_->settings(), {id.peer(), accepting_->name()});
    if (!wire.ok()) return wire.status();
    wire_ = *std::move(wire);
    met = wire_->MeetPeer(event);
    if (!met.ok()) return met;
    device->Watch(id, *this);
    loop_.timers().Arm(alarm_, loop_.now() + kAcceptTimeout);
    return wire_->Accept();
  }

  void OnEvent(ConnectionEvent& event) override {
    if (wire_ == nullptr || event.kind != ConnectionEvent::Kind::kEstablished) return Drop();
    const auto keep = shared_from_this();
    alarm_.Disarm();
    const std::shared_ptr<Wire> wire = std::exchange(wire_, nullptr);
    wire->Begin(/*active=*/false);
    accepting_->Done(*this);
    accepting_->Deliver(loop_, std::make_unique<RdmaConnection>(wire));
  }

  const std::shared_ptr<Accepting> accepting_;
  EventLoop& loop_;
  std::shared_ptr<Wire> wire_;
  Alarm alarm_{*this};
};

Accepting::Accepting(std::string name, std::shared_ptr<Device> device,
                     std::unique_ptr<EventChannel> channel,
                     std::unique_ptr<AddressListener> listener, std::vector<EventLoop*> loops,
                     Transport::Acceptor acceptor, std::shared_ptr<const Settings> settings)
    : name_(std::move(name)),
      device_(std::move(device)),
      loops_(std::move(loops)),
      acceptor_(std::move(acceptor)),
      settings_(std::move(settings)),
      channel_(std::move(channel)),
      listener_(std::move(listener)) {}

Accepting::~Accepting() = default;

void Accepting::Start() {
  loops_.front()->Post([self = shared_from_this()] { self->Open(); });
}

void Accepting::Stop() {
  {
    std::unique_lock<std::mutex> lock(mutex_.native());
    // A driver that stops its listener from inside the acceptor does not wait for itself, and
    // nobody else waits for it.
    std::erase(accepting_, std::this_thread::get_id());
    acceptor_left_.notify_all();
    if (std::exchange(stopped_, true)) {
      while (!accepting_.empty()) acceptor_left_.wait(lock);
      return;
    }
    listener_.reset();
    while (!accepting_.empty()) acceptor_left_.wait(lock);
  }
  std::vector<EventLoop*> loops = loops_;
  std::sort(loops.begin(), loops.end());
  loops.erase(std::unique(loops.begin(), loops.end()), loops.end());
  for (EventLoop* loop : loops) {
    loop->Post([self = shared_from_this(), loop] { self->DropPending(*loop); });
  }
}

// ---- first loop ----

void Accepting::Open() {
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    watch_.emplace(loops_.front()->poller_io(), channel_->fd(), [self = weak_from_this()] {
      if (const auto accepting = self.lock()) accepting->OnReadable();
    });
  }
  watch_->Wait();
}

void Accepting::OnReadable() {
  for (int i = 0; i < kEventsPerTurn && TakeOne(); ++i) {
  }
  if (watch_.has_value()) watch_->Wait();
}

bool Accepting::TakeOne() {
  std::optional<ConnectionEvent> event;
  {
    MutexLock lock(mutex_);
    if (stopped_) return false;
    event = channel_->Next();
  }
  if (!event.has_value()) return false;
  if (event->kind != ConnectionEvent::Kind::kConnectRequest) return true;
  EventLoop& loop = *loops_[next_loop_];
  next_loop_ = (next_loop_ + 1) % loops_.size();
  if (&loop == loops_.front()) {
    Answer(loop, *std::move(event));
  } else {
    loop.Post([self = shared_from_this(), &loop, event = *std::move(event)]() mutable {
      self->Answer(loop, std::move(event));
    });
  }
  return true;
}

// ---- the connection's loop ----

void Accepting::Answer(EventLoop& loop, ConnectionEvent event) {
  auto acceptance = std::make_shared<Acceptance>(shared_from_this(), loop);
  bool crowded = false;
  {
    MutexLock lock(mutex_);
    crowded = pending_.size() >= kMaxPendingAccepts;
    if (!stopped_) pending_.push_back(acceptance);
  }
  acceptance->Answer(std::move(event), crowded);
  MutexLock lock(mutex_);
  if (!stopped_) return;
  // Stopped meanwhile: DropPending may have been here before.
  loop.Post([acceptance] { acceptance->Drop(); });
}

void Accepting::Done(Acceptance& acceptance) {
  MutexLock lock(mutex_);
  std::erase_if(pending_, [&](const auto& pending) { return pending.get() == &acceptance; });
}

void Accepting::DropPending(EventLoop& loop) {
  std::vector<std::shared_ptr<Acceptance>> mine;
  {
    MutexLock lock(mutex_);
    for (const auto& pending : pending_) {
      if (&pending->loop() == &loop) mine.push_back(pending);
    }
  }
  for (const auto& pending : mine) pending->Drop();
  if (&loop == loops_.front()) watch_.reset();
}

void Accepting::Deliver(EventLoop& loop, std::unique_ptr<Connection> connection) {
  if (!EnterAcceptor()) return;
  acceptor_(loop, std::move(connection));
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

}  // namespace farcall::rdma
