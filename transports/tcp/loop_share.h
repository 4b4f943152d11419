// LoopShare: what all TCP connections of one EventLoop share, because only one of them is at work
// at a time. Lives in the loop's io_context, as a service, and dies with it. Driver only.

#ifndef FARCALL_TRANSPORTS_TCP_LOOP_SHARE_H_
#define FARCALL_TRANSPORTS_TCP_LOOP_SHARE_H_

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <memory>
#include <span>

#include "farcall/rpc/asio.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/idle_memory.h"
#include "farcall/rpc/log.h"
#include "farcall/transports/tcp/limits.h"
#include "farcall/transports/tcp/outgoing.h"
#include "farcall/transports/tcp/send_queue.h"

namespace farcall::tcp {

class LoopShare final : public asio::execution_context::service {
 public:
  using key_type = LoopShare;
  static inline asio::execution_context::id id;

  // The share of `loop`, made on first use.
  static LoopShare& Of(EventLoop& loop) { return asio::use_service<LoopShare>(loop.io()); }

  explicit LoopShare(asio::execution_context& context) : service(context) {}

  OutgoingStore& store() { return store_; }
  SendBatch& batch() { return batch_; }
  IdleMemory& idle_memory() { return idle_memory_; }
  LogThrottle& warnings() { return warnings_; }
  std::span<std::byte> read_buffer() { return {read_buffer_.get(), kReadBufferBytes}; }

  size_t hot_sockets = 0;  // polled directly; at most kMaxHotSockets

 private:
  void shutdown() override {}

  OutgoingStore store_;
  SendBatch batch_;
  IdleMemory idle_memory_;
  LogThrottle warnings_;
  std::unique_ptr<std::byte[]> read_buffer_{new std::byte[kReadBufferBytes]};
};

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_LOOP_SHARE_H_
