// The user's hold on a Wire.

#ifndef FARCALL_TRANSPORTS_RDMA_CONNECTION_H_
#define FARCALL_TRANSPORTS_RDMA_CONNECTION_H_

#include <memory>
#include <utility>

#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/wire.h"

namespace farcall::rdma {

class RdmaConnection final : public Connection {
 public:
  explicit RdmaConnection(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  ~RdmaConnection() override { wire_->Detach(); }

  const std::shared_ptr<BufferPool>& pool() const override { return wire_->pool(); }
  void Start(Receiver& receiver) override { wire_->Start(receiver); }
  Ticket Send(Message&& message, SendDone&& done) override {
    return wire_->Send(std::move(message), std::move(done));
  }
  void Withdraw(Ticket ticket) override { wire_->Withdraw(ticket); }
  void Abandon(Ticket ticket, absl::Status status) override {
    wire_->Abandon(ticket, std::move(status));
  }
  void Close(absl::Status status) override { wire_->Close(std::move(status)); }
  ConnectionInfo info() const override { return wire_->info(); }

  RdmaCounters counters() const { return wire_->counters(); }

 private:
  const std::shared_ptr<Wire> wire_;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_CONNECTION_H_
