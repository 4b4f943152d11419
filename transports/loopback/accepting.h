// Accepting: what a listener shares with the connects under way to it.

#ifndef FARCALL_TRANSPORTS_LOOPBACK_ACCEPTING_H_
#define FARCALL_TRANSPORTS_LOOPBACK_ACCEPTING_H_

#include <condition_variable>
#include <memory>
#include <string>
#include <vector>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/loopback/connecting.h"

namespace farcall::loopback {

// Thread-safe.
class Accepting final : public std::enable_shared_from_this<Accepting> {
 public:
  // `options` are those of the servers' ends, but for the peer's address.
  Accepting(EndOptions options, std::vector<EventLoop*> loops, Transport::Acceptor acceptor);

  // Accepts `client` in a coming turn of the next loop, or fails it when stopped.
  void Accept(std::shared_ptr<Connecting> client);

  // No acceptor starts after it returned, and none of another thread runs any more. A driver of
  // one of the loops does not wait for the others: they might be waiting for it.
  void Stop();

 private:
  void AcceptOn(EventLoop& loop, Connecting& client);

  const EndOptions options_;
  const std::vector<EventLoop*> loops_;
  const Transport::Acceptor acceptor_;

  Mutex mutex_;
  size_t next_loop_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;  // calls of acceptor_
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::condition_variable none_running_;
};

}  // namespace farcall::loopback

#endif  // FARCALL_TRANSPORTS_LOOPBACK_ACCEPTING_H_
