#include "farcall/transports/rdma/connector.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/connect_handle.h"
#include "farcall/rpc/log.h"
#include "farcall/rpc/timer_wheel.h"
#include "farcall/transports/rdma/connection.h"
#include "farcall/transports/rdma/loop_device.h"
#include "farcall/transports/rdma/wire.h"

namespace farcall::rdma {
namespace {

// Without the zeros that a connection manager puts behind it.
std::string_view Reason(std::span<const std::byte> private_data) {
  const std::string_view text = AsView(private_data);
  return text.substr(0, text.find_last_not_of('\0') + 1);
}

class Connector final : public std::enable_shared_from_this<Connector>, public ConnectionOwner {
 public:
  Connector(EventLoop& loop, Endpoint endpoint, TimePoint deadline, Transport::ConnectDone done,
            std::shared_ptr<const Settings> settings)
      : loop_(loop),
        endpoint_(std::move(endpoint)),
        deadline_(deadline),
        settings_(std::move(settings)),
        done_(std::move(done)) {}
  ~Connector() override { LetGo(); }

  void Start();
  void Cancel();

 private:
  class Alarm final : public Timer {
   public:
    explicit Alarm(Connector& connector) : connector_(connector) {}
    void OnTimer() override { connector_.OnAlarm(); }

   private:
    Connector& connector_;
  };

  void Resolve();
  absl::Status StartResolving();
  void OnEvent(ConnectionEvent& event) override;
  absl::Status FollowRoute();
  void OnResolved();
  void OnEstablished(const ConnectionEvent& event);
  void OnAlarm();
  void ArmFor(Duration step);
  void Fail(absl::Status status);
  void Complete(absl::StatusOr<std::unique_ptr<Connection>> result);
  void LetGo();

  EventLoop& loop_;
  const Endpoint endpoint_;
  const TimePoint deadline_;
  const std::shared_ptr<const Settings> settings_;
  Transport::ConnectDone done_;  // empty when it ran or was dropped

  const char* doing_ = "it had passed already";  // for errors
  std::shared_ptr<LoopDevice> device_;
  std::unique_ptr<ConnectionId> id_;  // until the wire has it
  std::shared_ptr<Wire> wire_;
  Alarm alarm_{*this};
};

void Connector::Start() {
  loop_.Post([self = shared_from_this()] {
    if (!self->done_) return;
    absl::Status check = CheckScheme(self->endpoint_, self->settings_->scheme);
    if (check.ok()) check = CheckOptions(self->settings_->options);
    if (!check.ok()) return self->Fail(std::move(check));
    if (self->loop_.now() >= self->deadline_) return self->OnAlarm();
    self->Resolve();
  });
}

void Connector::Resolve() {
  doing_ = "the address does not resolve";
  ArmFor(settings_->options.resolve_timeout);
  absl::Status started = StartResolving();
  if (!started.ok()) Fail(std::move(started));
}

absl::Status Connector::StartResolving() {
  absl::StatusOr<std::shared_ptr<Device>> device = settings_->device->Get();
  if (!device.ok()) return device.status();
  absl::StatusOr<std::shared_ptr<LoopDevice>> loop_device = LoopDevice::Of(loop_, *device);
  if (!loop_device.ok()) return loop_device.status();
  device_ = *std::move(loop_device);
  absl::StatusOr<std::unique_ptr<ConnectionId>> id =
      (*device)->Resolve(device_->channel(), DeviceAddress(endpoint_));
  if (!id.ok()) return id.status();
  id_ = *std::move(id);
  device_->Watch(*id_, *this);
  return absl::OkStatus();
}

void Connector::OnEvent(ConnectionEvent& event) {
  const auto keep = shared_from_this();
  switch (event.kind) {
    case ConnectionEvent::Kind::kResolved:
      return OnResolved();
    case ConnectionEvent::Kind::kEstablished:
      return OnEstablished(event);
    case ConnectionEvent::Kind::kRejected:
      return Fail(absl::UnavailableError(absl::StrCat(
          "the server refused the connection: ", Reason(event.private_data).empty()
                                                     ? "it does not say why"
                                                     : Printable(Reason(event.private_data)))));
    case ConnectionEvent::Kind::kConnectRequest:
      return;
    default:
      return Fail(absl::UnavailableError(
          event.status.ok() ? "the connection ended while it was made" : event.status.message()));
  }
}

// To the device that the route leads through.
absl::Status Connector::FollowRoute() {
  const std::shared_ptr<Device> device = id_->device();
  if (device == nullptr || device == device_->shared_device()) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<LoopDevice>> loop_device = LoopDevice::Of(loop_, device);
  if (!loop_device.ok()) return loop_device.status();
  device_->Forget(*id_);
  absl::Status moved = id_->MoveTo((*loop_device)->channel());
  device_ = *std::move(loop_device);
  device_->Watch(*id_, *this);
  return moved;
}

void Connector::OnResolved() {
  if (id_ == nullptr) return;
  if (absl::Status followed = FollowRoute(); !followed.ok()) return Fail(std::move(followed));
  doing_ = "no answer: is the server's process stopped, or busy?";
  ArmFor(settings_->options.connect_timeout);
  absl::StatusOr<std::shared_ptr<Wire>> wire =
      Wire::Create(device_, std::move(id_), settings_, {endpoint_.ToString(), ""});
  if (!wire.ok()) return Fail(wire.status());
  wire_ = *std::move(wire);
  absl::Status connecting = wire_->Connect();
  if (!connecting.ok()) Fail(std::move(connecting));
}

void Connector::OnEstablished(const ConnectionEvent& event) {
  if (wire_ == nullptr) return;
  absl::Status met = wire_->MeetPeer(event);
  if (!met.ok()) {
    return Fail(absl::UnavailableError(absl::StrCat("cannot talk to the peer: ", met.message())));
  }
  const std::shared_ptr<Wire> wire = std::exchange(wire_, nullptr);
  wire->Begin(/*active=*/true);
  Complete(std::make_unique<RdmaConnection>(wire));
}

void Connector::ArmFor(Duration step) {
  loop_.timers().Arm(alarm_, std::min(deadline_, After(loop_.now(), step)));
}

void Connector::OnAlarm() {
  const auto keep = shared_from_this();
  if (loop_.now() >= deadline_) {
    Fail(absl::DeadlineExceededError(absl::StrCat("not connected within the deadline: ", doing_)));
  } else {
    Fail(absl::UnavailableError(absl::StrCat("cannot connect: ", doing_)));
  }
}

// With the address, once.
void Connector::Fail(absl::Status status) {
  const std::string name = endpoint_.ToString();
  if (!absl::StrContains(status.message(), name)) {
    status = absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
  }
  Complete(std::move(status));
}

void Connector::Complete(absl::StatusOr<std::unique_ptr<Connection>> result) {
  Transport::ConnectDone done = std::exchange(done_, nullptr);
  LetGo();
  if (done) done(std::move(result));
}

void Connector::LetGo() {
  alarm_.Disarm();
  if (id_ != nullptr) device_->Forget(*id_);
  id_.reset();
  if (wire_ != nullptr) wire_->GiveUp();
  wire_.reset();
}

void Connector::Cancel() {
  if (!done_) return;
  done_ = nullptr;
  LetGo();
}

}  // namespace

std::unique_ptr<Transport::PendingConnect> StartConnect(EventLoop& loop, const Endpoint& endpoint,
                                                        TimePoint deadline,
                                                        Transport::ConnectDone done,
                                                        std::shared_ptr<const Settings> settings) {
  assert(loop.IsDriver());
  auto connector =
      std::make_shared<Connector>(loop, endpoint, deadline, std::move(done), std::move(settings));
  connector->Start();
  return std::make_unique<ConnectHandle<Connector>>(std::move(connector));
}

}  // namespace farcall::rdma
