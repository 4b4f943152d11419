// ServerCall: one call as the serving side sees it, from its announcement to its reply.
//
//   from        event                          to         why
//   announced   the request is whole           running    its body verified, its method known
//   announced   cancel, deadline, abandoned    gone       the payload is stopped
//   running     cancel, deadline               running    the handler is told; its reply will be
//                                                         dropped
//   running     the connection ended           orphaned   likewise
//   running     the handler finished           gone       the reply is sent
//   orphaned    the handler finished           gone
//
// Objects are recycled. All of it belongs to the driver of the connection's loop, except while a
// worker thread runs the handler: that thread then owns the request and the reply until Finish.

#ifndef FARCALL_RPC_SERVER_CALL_H_
#define FARCALL_RPC_SERVER_CALL_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "farcall/rpc/builder.h"
#include "farcall/rpc/context.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/method_table.h"
#include "farcall/rpc/timer_wheel.h"
#include "farcall/rpc/transport.h"

namespace farcall {

struct MethodTally;
class ServerSession;
class ServerLoop;

class ServerCall final : public Context, private Timer, private LoopTask {
 public:
  explicit ServerCall(ServerLoop& home);

  // ---- the handler's side (rpc/service.h), on whichever thread runs it ----

  Context& context() { return *this; }
  const Buffer& body() const { return request_.body; }
  // Body and attachment, for handlers that keep the request; the metadata stays with the context.
  Message TakeRequest();
  const std::shared_ptr<BufferPool>& pool() const { return pool_; }
  const BoundMethod& bound() const { return *bound_; }
  const MessageLimits& limits() const { return *limits_; }

  // The handler is done: `reply` was finished when `status` is OK. Once; the call must not be
  // touched afterwards. On the driver the reply leaves at the end of the turn; from another thread
  // it is passed to the loop.
  void Finish(absl::Status status, MessageBuilder& reply);
  // In two steps, for a coroutine, whose frame must be gone before the call is: keep the result,
  // then send it.
  void KeepResult(absl::Status status, MessageBuilder& reply);
  void SendResult();
  // Instead of both, when the coroutine was destroyed before it finished; its frame may be going
  // right now. Any thread.
  void HandlerDestroyed();

  // The handler broke its contract, by an exception or a reply that it did not finish: the server's
  // log names it. Before Finish or KeepResult has returned.
  void NoteFault() { at_fault_ = true; }

  // Driver only: the caller gave up, its deadline passed or its connection ended.
  void Cancel();

 private:
  friend class ServerSession;
  friend class ServerLoop;

  void OnTimer() override;  // the deadline
  void Run() override;      // LoopTask: the result has come back to the loop
  void Clear();
  // The connection that was served last.
  void Forget();

  ServerLoop& home_;

  // Of the call at hand.
  ServerSession* session_ = nullptr;  // null once the connection ended
  const BoundMethod* bound_ = nullptr;
  const MessageLimits* limits_ = nullptr;
  std::shared_ptr<BufferPool> pool_;
  MethodTally* tally_ = nullptr;  // of its method
  uint64_t id_ = 0;
  Ticket ticket_ = 0;
  bool listed_ = false;  // in the session's table
  bool whole_ = false;
  uint64_t request_bytes_ = 0;  // body and attachment as they were announced
  TimePoint whole_by_{};        // when the request must be whole
  TimePoint whole_at_{};        // when it was, to the turn

  // The result.
  absl::Status status_;
  bool at_fault_ = false;  // the handler
  Buffer reply_body_;
  Buffer reply_attachment_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_SERVER_CALL_H_
