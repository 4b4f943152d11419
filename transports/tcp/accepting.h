// Accepting: takes connections off a listening socket, on the first of its loops, and hands each to
// the loop where it will live. Shared with the work that is under way on those loops.

#ifndef FARCALL_TRANSPORTS_TCP_ACCEPTING_H_
#define FARCALL_TRANSPORTS_TCP_ACCEPTING_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "farcall/rpc/asio.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/timer_wheel.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/tcp/connection.h"
#include "farcall/transports/tcp/socket_setup.h"

namespace farcall::tcp {

class Accepting final : public std::enable_shared_from_this<Accepting> {
 public:
  // `socket` listens. `name` is its address, for logs.
  Accepting(std::string name, Descriptor socket, std::vector<EventLoop*> loops,
            Transport::Acceptor acceptor, std::shared_ptr<const Settings> settings);

  // Any thread.
  void Start();
  // When it returns the kernel refuses new connections and no acceptor runs but those that wait for
  // this very call. Any thread.
  void Stop() ABSL_NO_THREAD_SAFETY_ANALYSIS;  // it waits on a condition

 private:
  class Pause final : public Timer {
   public:
    explicit Pause(Accepting& accepting) : accepting_(accepting) {}
    void OnTimer() override { accepting_.Wait(); }

   private:
    Accepting& accepting_;
  };

  // ---- first loop ----
  void Open();
  void Wait();
  void OnReadable();
  bool AcceptOne();
  void OnOutOfResources(int error);
  void CloseSocket();
  // ---- the connection's loop ----
  void Deliver(EventLoop& loop, Descriptor descriptor);
  // False: stopped. Otherwise LeaveAcceptor follows.
  bool EnterAcceptor();
  void LeaveAcceptor();

  // Constant after construction.
  const std::string name_;
  const std::vector<EventLoop*> loops_;
  const Transport::Acceptor acceptor_;
  const std::shared_ptr<const Settings> settings_;

  // First loop only.
  Descriptor unopened_;  // until Open
  // From Open to CloseSocket. Gone before the loop is, though work on another loop may keep us
  // longer.
  using Socket = asio::posix::basic_stream_descriptor<asio::io_context::executor_type>;
  std::optional<Socket> socket_;
  size_t next_loop_ = 0;
  bool out_of_resources_ = false;  // said so in the log
  Pause pause_{*this};

  Mutex mutex_;
  int listening_ ABSL_GUARDED_BY(mutex_) = -1;  // the socket while it is open, for Stop
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread::id> accepting_ ABSL_GUARDED_BY(mutex_);  // threads inside the acceptor
  std::condition_variable acceptor_left_;
};

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_ACCEPTING_H_
