// Connecting: a client's attempt, from Connect to its `done`.

#ifndef FARCALL_TRANSPORTS_LOOPBACK_CONNECTING_H_
#define FARCALL_TRANSPORTS_LOOPBACK_CONNECTING_H_

#include <memory>
#include <string>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/loopback/connection.h"

namespace farcall::loopback {

class Connecting final : public std::enable_shared_from_this<Connecting>, private Timer {
 public:
  // On `loop`'s driver. `options` are those of the client's end.
  Connecting(EventLoop& loop, EndOptions options, Transport::ConnectDone done);

  const std::string& server_address() const { return options_.peer_address; }
  const std::string& client_address() const { return options_.local_address; }

  // ---- the client's loop ----

  void SetDeadline(TimePoint deadline);
  // Drops `done` without running it; a connection that is made nevertheless is closed.
  void Cancel();

  // ---- any thread; `done` follows on the client's loop, unless something ended it before ----

  // False: nobody waits for a connection any more.
  bool pending();
  void Succeed(std::shared_ptr<Mailbox> clients, std::shared_ptr<Mailbox> servers);
  void Fail(absl::Status status);

 private:
  void OnTimer() override;
  // Claims the end of the attempt: the loop to end it on, or nullptr when it has ended.
  EventLoop* End();
  void Complete(absl::StatusOr<std::unique_ptr<Connection>> result);

  EndOptions options_;           // touched on the loop only, but for the addresses, which stay
  Transport::ConnectDone done_;  // likewise

  Mutex mutex_;
  EventLoop* loop_ ABSL_GUARDED_BY(mutex_);  // nullptr: ended
};

}  // namespace farcall::loopback

#endif  // FARCALL_TRANSPORTS_LOOPBACK_CONNECTING_H_
