// Connection events of the software NIC, and what watches sockets for them.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_EVENT_CHANNEL_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_EVENT_CHANNEL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/fork_guard.h"
#include "farcall/transports/rdma/softnic/file_descriptor.h"

namespace farcall::softnic {

class Watched {
 public:
  virtual ~Watched() = default;
  // May destroy itself, and others.
  virtual void OnReadable() = 0;
};

class ChannelCore {
 public:
  static absl::StatusOr<std::shared_ptr<ChannelCore>> Create();

  // `until_end`: only the end of the socket is of interest. Watched again, it changes.
  void Watch(int socket, bool until_end, Watched& watched);
  void Unwatch(int socket);
  void Push(rdma::ConnectionEvent event);
  // No event of these comes any more.
  void Forget(const rdma::ConnectionId* id);
  void Forget(const rdma::AddressListener* listener);

  int fd() const { return epoll_.get(); }
  std::optional<rdma::ConnectionEvent> Next();

 private:
  ChannelCore(FileDescriptor epoll, FileDescriptor notice)
      : epoll_(std::move(epoll)), notice_(std::move(notice)) {}

  const rdma::ForkGuard guard_;
  const FileDescriptor epoll_, notice_;
  std::deque<rdma::ConnectionEvent> events_;
};

class Channel : public rdma::EventChannel {
 public:
  explicit Channel(std::shared_ptr<ChannelCore> core) : core_(std::move(core)) {}

  int fd() const override { return core_->fd(); }
  std::optional<rdma::ConnectionEvent> Next() override { return core_->Next(); }
  const std::shared_ptr<ChannelCore>& core() const { return core_; }

 private:
  const std::shared_ptr<ChannelCore> core_;
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_EVENT_CHANNEL_H_
