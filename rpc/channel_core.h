// ChannelCore: what stands behind the handles of a channel. For rpc/ itself; users hold a Channel.
//
//   state        event                     to           and
//   connecting   HELLO came                ready        waiting calls are sent
//   connecting   the attempt failed        backoff      waiting calls fail, but for those that
//                                                       wait_for_ready; all of them when no attempt
//                                                       can succeed (INVALID_ARGUMENT)
//   ready        the connection was lost   connecting   at once, or
//                                          backoff      when it had not lasted either
//   ready        the peer drains           likewise     the old connection carries its calls to
//                                                       their end
//   backoff      the pause is over         connecting
//   any          the last handle is gone   closed       every call ends
//
// While it is ready, calls go by carrier_: the connection, or a better path beside it
// (rpc/channel_paths.h).

#ifndef FARCALL_RPC_CHANNEL_CORE_H_
#define FARCALL_RPC_CHANNEL_CORE_H_

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "farcall/rpc/call.h"
#include "farcall/rpc/channel.h"
#include "farcall/rpc/channel_paths.h"
#include "farcall/rpc/client_session.h"
#include "farcall/rpc/connection_list.h"
#include "farcall/rpc/method_tally.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/tally.h"

namespace farcall {

// What a channel counts: its loop's driver writes, any thread reads.
struct ChannelTally {
  ChannelStats Read() const;

  Tally started, succeeded, failed, not_sent, not_run, unknown, late_replies, repeated;
  Tally connects, connect_failures;
  Tally waiting;  // calls that no connection carries yet
  MethodTallies methods;
  ConnectionList connections;
};

class ChannelCore final : public std::enable_shared_from_this<ChannelCore>,
                          private ChannelPaths::User,
                          private Timer,
                          private LoopTask {
 public:
  // `options` have a loop.
  ChannelCore(std::shared_ptr<Transport> transport, Endpoint endpoint, ChannelOptions options);
  ~ChannelCore() override;

  // ---- any thread ----
  EventLoop& loop() const { return *loop_; }
  const std::shared_ptr<EventLoop>& shared_loop() const { return loop_; }
  const ChannelOptions& options() const { return options_; }
  const Endpoint& endpoint() const { return endpoint_; }  // as dialled
  std::shared_ptr<BufferPool> pool() const;
  uint64_t NextCancelKey() { return next_cancel_key_.fetch_add(1, std::memory_order_relaxed); }
  // Ends the call with that key, if it is under way, with CANCELLED; later, on the loop.
  void RequestCancel(uint64_t key);
  ChannelMetrics Metrics() const;

  // ---- driver only ----
  void Connect();
  // Takes `call` until its OnDone, which never runs inside this.
  void Start(ClientCall& call);
  // Ends a call before its answer.
  void End(ClientCall& call, const absl::Status& cause);
  void Shutdown();
  ChannelInfo Info() const;

 private:
  using State = ChannelInfo::State;

  // ClientSession::Owner
  void OnSessionReady(ClientSession& session) override;
  void OnCallLeft(ClientSession& session) override;
  void Finish(ClientCall& call, absl::Status&& status, Message&& reply) override;
  void Return(ClientCall& call) override;
  void OnSessionDraining(ClientSession& session) override;
  void OnSessionEnded(ClientSession& session, const absl::Status& status) override;
  void OnLateReply() override { ++tally_.late_replies; }
  void OnOffers(ClientSession& session, const std::vector<PathOffer>& offers) override;

  // ChannelPaths::User
  SessionOptions MakeSessionOptions(std::string token) override;
  void OnPathChanged() override;
  void OnPathGone(ClientSession* main) override;

  void OnTimer() override { Connect(); }  // the pause is over
  void Run() override;                    // LoopTask: ends the calls of doomed_

  void Enter(State state);
  void OnConnected(absl::StatusOr<std::unique_ptr<Connection>> connection);
  void OnAttemptFailed(const absl::Status& status);
  void ConnectAgain(const absl::Status& lost);
  bool WaitsOutBackoff(const ClientCall& call) const;
  absl::Status NotConnected() const;
  void Wait(ClientCall& call);
  void SendWaiting();
  bool CanSend() const { return carrier_ != nullptr && carrier_->takes_calls(); }
  // New calls go by `session`; null: there is none.
  void SetCarrier(ClientSession* session);
  // Ends a connection that takes no new calls when its last one is over.
  void EndIfDrained(ClientSession& session);
  // Nothing calls back any more.
  bool Disconnected() const;
  void CountEnd(const ClientCall& call, const absl::Status& status, Outcome outcome,
                const Message& reply);
  // Ends a call that no session carries, at the end of this turn.
  void Doom(ClientCall& call, const absl::Status& cause);
  void Unlink(ClientCall& call);
  std::string WhyWaiting() const;
  void Bury(ClientSession& session);
  Duration NextPause();
  void SetLastError(const absl::Status& status);

  // Constant after construction.
  const std::shared_ptr<Transport> transport_;
  const Endpoint endpoint_;
  const ChannelOptions options_;
  const std::shared_ptr<EventLoop> loop_;

  std::atomic<uint64_t> next_cancel_key_{1};
  mutable SpinMutex pool_mutex_;
  std::shared_ptr<BufferPool> pool_ ABSL_GUARDED_BY(pool_mutex_);
  mutable Mutex mutex_;
  std::string last_error_text_ ABSL_GUARDED_BY(mutex_);  // of last_error_

  // Written on the loop, read by any thread.
  std::atomic<State> state_{State::kConnecting};
  ChannelTally tally_;  // before the sessions, which are listed in it

  // Touched on the loop only.
  bool upkeep_ = false;  // the loop knows that a connection is to be made
  std::unique_ptr<Transport::PendingConnect> connecting_;
  std::unique_ptr<ClientSession> session_;  // connecting (HELLO pending) or ready
  ClientSession* carrier_ = nullptr;        // by which new calls go; null unless ready
  std::unique_ptr<ChannelPaths> paths_;     // null: the transport has one path only
  std::shared_ptr<ChannelCore> self_;       // while closed but not yet disconnected
  std::vector<std::unique_ptr<ClientSession>> draining_;  // carry old calls to their end
  ClientCall* first_waiting_ = nullptr;
  ClientCall* last_waiting_ = nullptr;
  std::vector<ClientCall*> doomed_;
  bool ending_doomed_ = false;
  absl::flat_hash_map<uint64_t, ClientCall*> cancellable_;
  absl::Status last_error_;
  int failed_attempts_ = 0;
  TimePoint ready_at_{};  // when the latest connection became ready
  int short_lives_ = 0;   // connections in a row that were lost soon after
  std::minstd_rand random_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_CHANNEL_CORE_H_
