// CmId: an identifier of the connection manager, destroyed when the last who needs it goes: its
// ConnectionId, and the queue pair that was made on it.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_CM_ID_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_CM_ID_H_

#include <rdma/rdma_cma.h>

#include <memory>
#include <utility>

#include "farcall/transports/rdma/fork_guard.h"
#include "farcall/transports/rdma/verbs/event_channel.h"

namespace farcall::verbs {

class CmId {
 public:
  CmId(rdma_cm_id* id, std::shared_ptr<ChannelCore> channel)
      : id_(id), channel_(std::move(channel)) {}
  // Waits for no event: each is acknowledged before its taker returns.
  ~CmId() {
    if (!inherited()) rdma_destroy_id(id_);
  }
  CmId(const CmId&) = delete;
  CmId& operator=(const CmId&) = delete;

  rdma_cm_id* get() const { return id_; }
  const std::shared_ptr<ChannelCore>& channel() const { return channel_; }
  void set_channel(std::shared_ptr<ChannelCore> channel) { channel_ = std::move(channel); }
  bool inherited() const { return guard_.inherited(); }

 private:
  const rdma::ForkGuard guard_;
  rdma_cm_id* const id_;
  std::shared_ptr<ChannelCore> channel_;
};

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_CM_ID_H_
