// Context: what a handler knows of the call that it serves, beside the request itself.

#ifndef FARCALL_RPC_CONTEXT_H_
#define FARCALL_RPC_CONTEXT_H_

#include <atomic>
#include <boost/asio/cancellation_signal.hpp>
#include <memory>
#include <string>
#include <utility>

#include "farcall/rpc/asio.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/loop_executor.h"
#include "farcall/rpc/message.h"
#include "farcall/rpc/metadata.h"
#include "farcall/rpc/method.h"

namespace farcall {

// Who calls. Constant for the life of a connection.
struct PeerIdentity {
  std::string address;         // as the transport knows it
  std::string transport;       // "tcp", "unix", …
  std::string authentication;  // what the peer's HELLO carried, opaque and unverified
};

// Lives as long as its call. Reading is thread-safe; adding reply metadata is the handler's alone.
class Context {
 public:
  const MethodInfo& method() const { return *method_; }
  const PeerIdentity& peer() const { return *peer_; }

  // When the caller stops waiting, and how long that is from now (never negative).
  TimePoint deadline() const { return expires_at_; }
  Duration remaining() const {
    const Duration left = expires_at_ - clock_->Now();
    return left > Duration(0) ? left : Duration(0);
  }

  // True once the caller gave up, its deadline passed or its connection ended: nobody waits for the
  // reply. A handler that runs on a worker thread polls this; a coroutine is cancelled at its next
  // suspension by itself.
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Emits on the connection's loop when cancelled() becomes true; for a coroutine handler it is
  // taken already.
  asio::cancellation_slot cancellation_slot() { return signal_.slot(); }

  // What the caller sent along; valid as long as the call. A coroutine's Msg holds the attachment
  // itself.
  MetadataView metadata() const { return MetadataView(request_.head.bytes()); }
  const Buffer& attachment() const { return request_.attachment; }
  Buffer TakeAttachment() { return std::move(request_.attachment); }

  // Sent with the reply, also when it is an error. What exceeds a head makes the call fail with
  // RESOURCE_EXHAUSTED.
  void AddReplyMetadata(std::string key, std::string value) {
    reply_metadata_.Add(std::move(key), std::move(value));
  }

  // The connection's loop.
  const LoopExecutor& executor() const { return executor_; }

 protected:
  explicit Context(LoopExecutor executor) : executor_(executor) {}
  ~Context() = default;

  const LoopExecutor executor_;
  const MethodInfo* method_ = nullptr;
  const Clock* clock_ = nullptr;
  std::shared_ptr<const PeerIdentity> peer_;
  TimePoint expires_at_{};
  std::atomic<bool> cancelled_{false};
  asio::cancellation_signal signal_;
  Message request_;
  Metadata reply_metadata_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_CONTEXT_H_
