// For transports: the handle of a connect, which cancels it when it goes.

#ifndef FARCALL_RPC_CONNECT_HANDLE_H_
#define FARCALL_RPC_CONNECT_HANDLE_H_

#include <memory>
#include <utility>

#include "farcall/rpc/transport.h"

namespace farcall {

// Connector::Cancel is called once, on the driver, and does nothing when the connect was done.
template <class Connector>
class ConnectHandle final : public Transport::PendingConnect {
 public:
  explicit ConnectHandle(std::shared_ptr<Connector> connector) : connector_(std::move(connector)) {}
  ~ConnectHandle() override { connector_->Cancel(); }

 private:
  const std::shared_ptr<Connector> connector_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_CONNECT_HANDLE_H_
