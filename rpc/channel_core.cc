#include "farcall/rpc/channel_core.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/log.h"
#include "farcall/rpc/planted.h"

namespace farcall {
namespace {

// Before the first connection there is no device to allocate from; every transport can send plain
// memory.
const std::shared_ptr<BufferPool>& UnconnectedPool() {
  static const auto* pool = new std::shared_ptr<BufferPool>(
      std::make_shared<BufferPool>(BufferPoolOptions{.name = "unconnected channels'"}));
  return *pool;
}

}  // namespace

ChannelCore::ChannelCore(std::shared_ptr<Transport> transport, Endpoint endpoint,
                         ChannelOptions options)
    : transport_(std::move(transport)),
      endpoint_(std::move(endpoint)),
      options_(std::move(options)),
      loop_(options_.loop),
      pool_(UnconnectedPool()),
      random_(static_cast<unsigned>(reinterpret_cast<uintptr_t>(this) >> 4) ^
              static_cast<unsigned>(Clock::Steady().Now().time_since_epoch().count())) {
  if (std::unique_ptr<PathSelector> selector = transport_->MakePathSelector()) {
    ChannelPaths::User& user = *this;
    paths_ = std::make_unique<ChannelPaths>(*loop_, std::move(selector), options_.paths, user);
  }
}

ChannelCore::~ChannelCore() = default;

std::shared_ptr<BufferPool> ChannelCore::pool() const {
  SpinLock lock(pool_mutex_);
  return pool_;
}

SessionOptions ChannelCore::MakeSessionOptions(std::string token) {
  return {.limits = options_.limits,
          .keepalive = options_.keepalive,
          .authentication = options_.authentication,
          .token = std::move(token),
          .list = &tally_.connections};
}

void ChannelCore::SetLastError(const absl::Status& status) {
  last_error_ = status;
  MutexLock lock(mutex_);
  last_error_text_ = std::string(status.message());
}

// ---- connecting ----

// Beside callers whose calls fail at once nobody else would see to the next attempt.
void ChannelCore::Enter(State state) {
  state_ = state;
  const bool connects = state == State::kConnecting || state == State::kBackoff;
  if (std::exchange(upkeep_, connects) == connects) return;
  if (connects) {
    loop_->AddUpkeep();
  } else {
    loop_->RemoveUpkeep();
  }
}

void ChannelCore::Connect() {
  if (state_ == State::kClosed) return;
  Enter(State::kConnecting);
  Disarm();
  connecting_ =
      transport_->Connect(*loop_, endpoint_, After(loop_->now(), options_.connect_timeout),
                          [this](absl::StatusOr<std::unique_ptr<Connection>> connection) {
                            OnConnected(std::move(connection));
                          });
}

void ChannelCore::OnConnected(absl::StatusOr<std::unique_ptr<Connection>> connection) {
  // The handle must not die inside its own callback.
  loop_->Post([done = std::move(connecting_)] {});
  if (!connection.ok()) {
    const absl::Status& failed = connection.status();
    // The time that ran out is the attempt's, not that of the calls which will be told.
    OnAttemptFailed(absl::IsDeadlineExceeded(failed) ? absl::UnavailableError(failed.message())
                                                     : failed);
    return;
  }
  ClientSession::Owner& owner = *this;
  session_ = std::make_unique<ClientSession>(*loop_, *std::move(connection), MakeSessionOptions({}),
                                             owner);
  session_->Start();
}

void ChannelCore::OnSessionReady(ClientSession& session) {
  if (&session != session_.get()) return;
  Enter(State::kReady);
  ready_at_ = loop_->now();
  failed_attempts_ = 0;
  ++tally_.connects;
  SetCarrier(&session);
  Log(LogLevel::kInfo, absl::StrCat("channel: connected to ", session.peer_address()));
  if (paths_ != nullptr) paths_->Start(session);
  SendWaiting();
}

void ChannelCore::SetCarrier(ClientSession* session) {
  carrier_ = session;
  if (session == nullptr) return;
  std::shared_ptr<BufferPool> pool = session->pool();
  SpinLock lock(pool_mutex_);
  pool_.swap(pool);
}

void ChannelCore::OnOffers(ClientSession& session, const std::vector<PathOffer>& offers) {
  if (paths_ != nullptr) paths_->TakeOffers(session, offers);
}

void ChannelCore::OnPathChanged() {
  if (state_ != State::kReady) return;
  SetCarrier(paths_->carrier() != nullptr ? paths_->carrier() : session_.get());
  SendWaiting();
}

void ChannelCore::OnPathGone(ClientSession* main) {
  if (main != nullptr) EndIfDrained(*main);
  if (self_ != nullptr && Disconnected()) loop_->Post([keep = std::move(self_)] {});
}

void ChannelCore::OnAttemptFailed(const absl::Status& status) {
  ++tally_.connect_failures;
  if (failed_attempts_ == 0) {
    Log(LogLevel::kWarning,
        absl::StrCat("channel: ", status.message(), "; trying again with growing pauses"));
  }
  SetLastError(status);
  Enter(State::kBackoff);
  loop_->timers().Arm(*this, After(loop_->now(), NextPause()));
  for (ClientCall* call = first_waiting_; call != nullptr;) {
    ClientCall* next = call->next_;
    if (!WaitsOutBackoff(*call)) {
      Unlink(*call);
      Doom(*call, NotConnected());
    }
    call = next;
  }
}

// The next attempt would fail as well: nothing that time mends is wrong.
bool ChannelCore::WaitsOutBackoff(const ClientCall& call) const {
  return call.request_.wait_for_ready && !absl::IsInvalidArgument(last_error_);
}

// Why a call ends that does not wait.
absl::Status ChannelCore::NotConnected() const {
  if (!absl::IsUnavailable(last_error_)) return last_error_;
  return absl::UnavailableError(absl::StrCat(
      last_error_.message(), " (CallOptions::wait_for_ready waits until it can be reached)"));
}

Duration ChannelCore::NextPause() {
  return PauseAfter(++failed_attempts_, options_.backoff, random_);
}

void ChannelCore::OnSessionDraining(ClientSession& session) {
  if (&session != session_.get()) return;
  const bool was_ready = state_ == State::kReady;
  Log(LogLevel::kInfo, absl::StrCat("channel: ", session.peer_address(),
                                    " drains; its calls end there, new ones go elsewhere"));
  SetCarrier(nullptr);
  draining_.push_back(std::move(session_));
  if (paths_ != nullptr) paths_->Leave();
  if (FARCALL_PLANTED(kDrainForgetsCalls)) session.End(absl::CancelledError("drained"));
  EndIfDrained(session);
  const absl::Status drains = absl::UnavailableError(
      absl::StrCat(session.peer_address(), " is shutting down: it takes no calls"));
  if (was_ready) {
    ConnectAgain(drains);
  } else {
    OnAttemptFailed(drains);
  }
}

void ChannelCore::OnSessionEnded(ClientSession& session, const absl::Status& status) {
  const bool current = &session == session_.get();
  if (current) SetCarrier(nullptr);
  Bury(session);
  if (paths_ != nullptr) paths_->MainEnded(session, status);
  if (!current || state_ == State::kClosed) {
    Log(LogLevel::kInfo, absl::StrCat("channel: the connection to ", session.peer_address(),
                                      " ended: ", status.message()));
    return;
  }
  if (state_ != State::kReady) {
    OnAttemptFailed(status);
    return;
  }
  SetLastError(status);
  Log(LogLevel::kWarning, absl::StrCat("channel: lost ", session.peer_address(), ": ",
                                       status.message(), "; connecting again"));
  ConnectAgain(status);
}

// After a connection that was ready: at once, but with pauses when one after the other does not
// last, as of a server that takes connections only to end them.
void ChannelCore::ConnectAgain(const absl::Status& lost) {
  short_lives_ = loop_->now() - ready_at_ < options_.backoff.max ? short_lives_ + 1 : 0;
  if (short_lives_ <= 1) {
    Connect();
    return;
  }
  failed_attempts_ = short_lives_ - 1;
  OnAttemptFailed(lost);
}

// A session must outlive the callback that it is in.
void ChannelCore::Bury(ClientSession& session) {
  std::unique_ptr<ClientSession> dead;
  if (&session == session_.get()) {
    dead = std::move(session_);
  } else {
    auto found = std::find_if(draining_.begin(), draining_.end(),
                              [&](const auto& candidate) { return candidate.get() == &session; });
    if (found == draining_.end()) return;
    dead = std::move(*found);
    draining_.erase(found);
  }
  // After a shutdown the last connection's end is the end of the channel, too.
  const bool last = Disconnected();
  loop_->Post([keep = last ? std::move(self_) : nullptr, buried = std::move(dead)] {});
}

bool ChannelCore::Disconnected() const {
  return session_ == nullptr && draining_.empty() && (paths_ == nullptr || paths_->empty());
}

// What goes by a path ends with the connection beside it, which therefore waits for that.
void ChannelCore::EndIfDrained(ClientSession& session) {
  const bool drains = std::any_of(draining_.begin(), draining_.end(), [&](const auto& candidate) {
    return candidate.get() == &session;
  });
  if (!drains || session.calls() != 0) return;
  if (paths_ != nullptr && paths_->LeansOn(session)) return;
  session.End(absl::CancelledError("drained"));
}

// ---- calls ----

void ChannelCore::Start(ClientCall& call) {
  ++tally_.started;
  call.channel_ = this;
  call.tally_ = &tally_.methods.Of(*call.request_.method);
  ++call.tally_->started;
  if (call.cancel_key_ != 0) cancellable_.emplace(call.cancel_key_, &call);
  if (state_ == State::kClosed) {
    Doom(call, absl::CancelledError("the channel is closed"));
  } else if (std::max(loop_->now(), call.request_.started) >= call.request_.deadline) {
    Doom(call, absl::DeadlineExceededError(absl::StrCat("the deadline of ",
                                                        Absl(call.request_.method->name),
                                                        " had passed before it was sent")));
  } else if (state_ == State::kBackoff && !WaitsOutBackoff(call)) {
    Doom(call, NotConnected());
  } else if (tally_.waiting >= options_.max_waiting_calls && !CanSend() &&
             !FARCALL_PLANTED(kChannelKeepsTooMany)) {
    Doom(call, absl::ResourceExhaustedError(absl::StrCat(uint64_t{tally_.waiting},
                                                         " calls wait for ", endpoint_.ToString(),
                                                         " already (max_waiting_calls)")));
  } else {
    Wait(call);
    SendWaiting();
    // After it left: it need not wait for this.
    if (call.state_ != ClientCall::State::kDone) {
      loop_->timers().Arm(call, call.request_.deadline);
    }
  }
}

void ChannelCore::Wait(ClientCall& call) {
  call.state_ = ClientCall::State::kWaiting;
  call.previous_ = last_waiting_;
  call.next_ = nullptr;
  (last_waiting_ != nullptr ? last_waiting_->next_ : first_waiting_) = &call;
  last_waiting_ = &call;
  ++tally_.waiting;
}

void ChannelCore::Unlink(ClientCall& call) {
  (call.previous_ != nullptr ? call.previous_->next_ : first_waiting_) = call.next_;
  (call.next_ != nullptr ? call.next_->previous_ : last_waiting_) = call.previous_;
  --tally_.waiting;
}

void ChannelCore::SendWaiting() {
  while (first_waiting_ != nullptr && CanSend()) {
    ClientCall& call = *first_waiting_;
    Unlink(call);
    if (absl::Status fits = carrier_->CheckSize(call); !fits.ok()) {
      Doom(call, fits);
    } else {
      if (call.keeps_message_) ++tally_.repeated;
      carrier_->Carry(call);
    }
  }
}

void ChannelCore::OnCallLeft(ClientSession& session) {
  if (&session == carrier_) {
    if (first_waiting_ != nullptr) SendWaiting();
  } else if (session.calls() == 0) {
    EndIfDrained(session);
  }
}

void ChannelCore::Return(ClientCall& call) {
  if (state_ == State::kClosed) {
    if (FARCALL_PLANTED(kCallLostOnClose)) return call.Disarm();
    Doom(call, absl::CancelledError("the channel was closed"));
  } else if (state_ == State::kBackoff && !WaitsOutBackoff(call)) {
    Doom(call, NotConnected());
  } else {
    Wait(call);
    SendWaiting();  // a draining connection failed while the next one is ready
  }
}

void ChannelCore::End(ClientCall& call, const absl::Status& cause) {
  if (call.session_ != nullptr) {
    call.session_->EndCall(call, cause);
  } else if (call.state_ == ClientCall::State::kWaiting) {
    Unlink(call);
    Doom(call, absl::Status(cause.code(), absl::StrCat(cause.message(), WhyWaiting())));
  }
}

// What a call that never left was waiting for.
std::string ChannelCore::WhyWaiting() const {
  switch (state_) {
    case State::kReady:
      return absl::StrCat(" while ", carrier_->peer_address(), " was busy with ", carrier_->calls(),
                          " other calls, all that it serves at once");
    case State::kClosed:
      return "";
    case State::kConnecting:
      if (session_ == nullptr) break;
      return absl::StrCat(" while ", session_->peer_address(),
                          " was connected but had sent no HELLO: does it speak Farcall?");
    case State::kBackoff:
      break;
  }
  if (last_error_.ok()) return absl::StrCat(" while connecting to ", endpoint_.ToString());
  return absl::StrCat(" while connecting; the last attempt: ", last_error_.message());
}

void ChannelCore::Doom(ClientCall& call, const absl::Status& cause) {
  call.state_ = ClientCall::State::kDone;
  call.cause_ = WithOutcome(cause, Outcome::kNotSent);
  doomed_.push_back(&call);
  if (!ending_doomed_) loop_->RunAtEndOfTurn(*this);
}

void ChannelCore::Run() {
  loop_->CancelEndOfTurn(*this);  // a posted run may come first, and end the last call
  std::vector<ClientCall*> doomed;
  doomed.swap(doomed_);
  const auto keep = shared_from_this();
  ending_doomed_ = true;
  for (ClientCall* call : doomed) Finish(*call, absl::Status(call->cause_), {});
  ending_doomed_ = false;
  // A callback may start a call that is doomed at once, and its callback again: that takes a turn
  // each, between which the loop looks at what would make calls succeed.
  if (!doomed_.empty()) loop_->Post([keep] { keep->Run(); });
}

void ChannelCore::Finish(ClientCall& call, absl::Status&& status, Message&& reply) {
  call.Disarm();
  call.state_ = ClientCall::State::kDone;
  if (call.cancel_key_ != 0) cancellable_.erase(call.cancel_key_);
  // Whatever became of it this time.
  if (call.repeats_ > 0 && NeverRan(status)) {
    const auto again = Reworded(
        status, absl::StrCat(status.message(),
                             "; it was sent before, by a connection that was lost meanwhile"));
    status = WithOutcome(again, Outcome::kUnknown);
  }
  const Outcome outcome = OutcomeOf(status);
  CountEnd(call, status, outcome, reply);
  call.session_ = nullptr;
  call.request_.message.body.Reset();
  if (call.request_.info != nullptr) call.request_.info->outcome = outcome;
  call.OnDone(std::move(status), std::move(reply));
}

void ChannelCore::CountEnd(const ClientCall& call, const absl::Status& status, Outcome outcome,
                           const Message& reply) {
  MethodTally& method = *call.tally_;
  if (outcome != Outcome::kNotSent) method.bytes_sent += call.request_.request_bytes;
  method.bytes_received += reply.head.size() + reply.payload_bytes();
  const Duration took = loop_->now() - call.request_.started;
  method.End(status.code(), took);
  if (call.session_ != nullptr) call.session_->NoteEnd(took);
  if (status.ok()) {
    ++tally_.succeeded;
    return;
  }
  ++tally_.failed;
  if (outcome == Outcome::kNotSent) ++tally_.not_sent, ++method.not_sent;
  if (outcome == Outcome::kNotRun) ++tally_.not_run, ++method.refused;
  if (outcome == Outcome::kUnknown) ++tally_.unknown;
}

void ChannelCore::RequestCancel(uint64_t key) {
  loop_->Post([core = shared_from_this(), key] {
    const auto found = core->cancellable_.find(key);
    if (found == core->cancellable_.end()) return;  // it crossed the answer
    core->End(*found->second, absl::CancelledError("cancelled by the caller"));
  });
}

void ChannelCore::Shutdown() {
  if (state_ == State::kClosed) return;
  Enter(State::kClosed);
  Disarm();
  connecting_.reset();
  SetCarrier(nullptr);
  const absl::Status reason = absl::CancelledError("the channel was closed");
  while (first_waiting_ != nullptr) End(*first_waiting_, reason);
  if (!Disconnected()) self_ = shared_from_this();
  if (paths_ != nullptr) paths_->Shutdown(reason);
  for (const auto& session : draining_) session->End(reason);
  if (session_ != nullptr) session_->End(reason);
}

ChannelInfo ChannelCore::Info() const {
  ChannelInfo info{.state = state_,
                   .endpoint = endpoint_.ToString(),
                   .connection = {},
                   .paths = {},
                   .last_error = last_error_,
                   .stats = tally_.Read()};
  if (carrier_ != nullptr) info.connection = carrier_->connection_info();
  if (paths_ != nullptr) {
    info.paths = paths_->Report(loop_->clock().Now());
  } else if (carrier_ != nullptr) {
    info.paths = {.in_use = info.connection.transport, .age = loop_->now() - ready_at_};
  }
  return info;
}

ChannelMetrics ChannelCore::Metrics() const {
  ChannelMetrics metrics;
  metrics.endpoint = endpoint_.ToString();
  metrics.state = state_.load(std::memory_order_relaxed);
  {
    MutexLock lock(mutex_);
    metrics.last_error = last_error_text_;
  }
  metrics.waiting_calls = tally_.waiting;
  metrics.totals = tally_.Read();
  if (paths_ != nullptr) metrics.paths = paths_->Report(loop_->clock().Now());
  std::map<std::string, MethodStats> methods;
  tally_.methods.AddTo(methods);
  for (auto& [name, method] : methods) metrics.methods.push_back(std::move(method));
  tally_.connections.AppendOpen(metrics.connections);
  tally_.connections.AppendClosed(metrics.closed);
  metrics.pools = PoolsOf({transport_});
  return metrics;
}

ChannelStats ChannelTally::Read() const {
  return {.started = started,
          .succeeded = succeeded,
          .failed = failed,
          .not_sent = not_sent,
          .not_run = not_run,
          .unknown = unknown,
          .late_replies = late_replies,
          .repeated = repeated,
          .connects = connects,
          .connect_failures = connect_failures};
}

}  // namespace farcall
