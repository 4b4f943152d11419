// Accepting: takes requests for connections from a device's listener, on the first of its loops,
// and hands each to the loop where it will live, which answers it. Shared with the work that is
// under way on those loops.

#ifndef FARCALL_TRANSPORTS_RDMA_ACCEPTING_H_
#define FARCALL_TRANSPORTS_RDMA_ACCEPTING_H_

#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/fd_watch.h"
#include "farcall/transports/rdma/settings.h"

namespace farcall::rdma {

class Acceptance;

class Accepting final : public std::enable_shared_from_this<Accepting> {
 public:
  // `listener` listens on `channel`. `name` is its address, for connections and logs.
  Accepting(std::string name, std::shared_ptr<Device> device, std::unique_ptr<EventChannel> channel,
            std::unique_ptr<AddressListener> listener, std::vector<EventLoop*> loops,
            Transport::Acceptor acceptor, std::shared_ptr<const Settings> settings);
  ~Accepting();

  // Any thread.
  void Start();
  // When it returns the device refuses new connections and no acceptor runs but those that wait for
  // this very call. Any thread.
  void Stop() ABSL_NO_THREAD_SAFETY_ANALYSIS;  // it waits on a condition

  // ---- for Acceptance, on the connection's loop ----
  // Forgets it, whatever became of it.
  void Done(Acceptance& acceptance);
  // Gives the connection to the acceptor, unless this was stopped.
  void Deliver(EventLoop& loop, std::unique_ptr<Connection> connection);
  const std::string& name() const { return name_; }
  const std::shared_ptr<const Settings>& settings() const { return settings_; }
  const std::shared_ptr<Device>& device() const { return device_; }

 private:
  // ---- first loop ----
  void Open();
  void OnReadable();
  bool TakeOne();
  // ---- the connection's loop ----
  void Answer(EventLoop& loop, ConnectionEvent event);
  void DropPending(EventLoop& loop);
  // False: stopped. Otherwise LeaveAcceptor follows.
  bool EnterAcceptor();
  void LeaveAcceptor();

  // Constant after construction.
  const std::string name_;
  const std::shared_ptr<Device> device_;
  const std::vector<EventLoop*> loops_;
  const Transport::Acceptor acceptor_;
  const std::shared_ptr<const Settings> settings_;

  // First loop only.
  std::optional<FdWatch> watch_;
  size_t next_loop_ = 0;

  Mutex mutex_;
  // The listener and its channel are used by the first loop, and by whoever stops.
  std::unique_ptr<EventChannel> channel_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<AddressListener> listener_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // Those that wait for their peer's last word; each is touched on its own loop only.
  std::vector<std::shared_ptr<Acceptance>> pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread::id> accepting_ ABSL_GUARDED_BY(mutex_);  // threads inside the acceptor
  std::condition_variable acceptor_left_;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_ACCEPTING_H_
