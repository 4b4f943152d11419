// A connect with accidents: refused, or late.

#ifndef FARCALL_TRANSPORTS_FAULTY_CONNECTING_H_
#define FARCALL_TRANSPORTS_FAULTY_CONNECTING_H_

#include <functional>
#include <memory>
#include <utility>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/transport.h"

namespace farcall::faulty {

// Driver only.
class Connecting final : public Transport::PendingConnect, private Timer {
 public:
  // Asks the inner transport, whose `done` is given.
  using Ask =
      std::function<std::unique_ptr<Transport::PendingConnect>(Transport::ConnectDone done)>;
  // Puts the accidents around a connection.
  using Wrap = std::function<std::unique_ptr<Connection>(std::unique_ptr<Connection> inner)>;

  Connecting(EventLoop& loop, Wrap wrap, Transport::ConnectDone done)
      : loop_(loop), wrap_(std::move(wrap)), done_(std::move(done)) {}

  void AskNow(const Ask& ask) {
    inner_ = ask([this](absl::StatusOr<std::unique_ptr<Connection>> result) {
      if (result.ok()) result = wrap_(*std::move(result));
      End(std::move(result));
    });
  }
  void AskAt(TimePoint when, Ask ask) {
    ask_ = std::move(ask);
    loop_.timers().Arm(*this, when);
  }
  void FailAt(TimePoint when, absl::Status status) {
    failure_ = std::move(status);
    loop_.timers().Arm(*this, when);
  }

 private:
  void OnTimer() override {
    if (ask_ != nullptr) return AskNow(ask_);
    End(std::move(failure_));
  }
  // `done` may destroy this.
  void End(absl::StatusOr<std::unique_ptr<Connection>> result) {
    std::exchange(done_, nullptr)(std::move(result));
  }

  EventLoop& loop_;
  const Wrap wrap_;
  Transport::ConnectDone done_;
  Ask ask_;  // what the timer does: this, or fail
  absl::Status failure_;
  std::unique_ptr<Transport::PendingConnect> inner_;
};

}  // namespace farcall::faulty

#endif  // FARCALL_TRANSPORTS_FAULTY_CONNECTING_H_
