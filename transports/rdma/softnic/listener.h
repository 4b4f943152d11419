// A listener of the software NIC: accepts sockets and waits, not for long, for their requests.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_LISTENER_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_LISTENER_H_

#include <chrono>
#include <list>
#include <memory>
#include <string>

#include "farcall/transports/rdma/softnic/device_core.h"
#include "farcall/transports/rdma/softnic/event_channel.h"
#include "farcall/transports/rdma/softnic/runtime_folder.h"

namespace farcall::softnic {

class SoftListener : public rdma::AddressListener, public Watched {
 public:
  SoftListener(std::shared_ptr<DeviceCore> device, std::shared_ptr<ChannelCore> channel,
               std::string name, ListeningSocket socket);
  ~SoftListener() override;

  std::string address() const override { return name_; }
  void OnReadable() override;

 private:
  // A socket whose request has not come yet.
  struct Pending : Watched {
    Pending(SoftListener& its, FileDescriptor accepted, std::string name)
        : listener(its), socket(std::move(accepted)), peer(std::move(name)) {}
    void OnReadable() override { listener.Requested(*this); }

    SoftListener& listener;
    FileDescriptor socket;
    const std::string peer;
    const std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    std::list<Pending>::iterator place;
  };

  void Requested(Pending& pending);
  void Drop(Pending& pending);

  const rdma::ForkGuard guard_;
  const std::shared_ptr<DeviceCore> device_;
  const std::shared_ptr<ChannelCore> channel_;
  const std::string name_;
  const std::unique_ptr<ListeningSocket> socket_;
  std::list<Pending> pending_;  // the oldest first
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_LISTENER_H_
