#include "farcall/transports/tcp/stream.h"

#include <sys/socket.h>

#include <cassert>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/tcp/errors.h"

namespace farcall::tcp {

Stream::Stream(EventLoop& loop, Socket socket, StreamOptions options)
    : loop_(loop),
      share_(LoopShare::Of(loop)),
      options_(std::move(options)),
      socket_(std::move(socket)),
      queue_(share_.store(), options_.limits),
      assembler_(*this, *options_.pools.receive, options_.limits) {}

Stream::~Stream() = default;

void Stream::Start(Receiver& receiver) {
  assert(loop_.IsDriver() && receiver_ == nullptr);
  receiver_ = &receiver;
  if (shut_) {
    resume_.SubmitTo(loop_);
    return;
  }
  if (options_.handshake_timeout > Duration::zero()) {
    loop_.timers().Arm(handshake_, After(loop_.now(), options_.handshake_timeout));
  }
  WaitReadable();
}

Ticket Stream::Send(Message&& message, SendDone&& done) {
  assert(loop_.IsDriver());
  if (shut_ || !send_error_.ok()) {
    const absl::Status& why = shut_ ? close_status_ : send_error_;
    resume_.SubmitTo(loop_);
    return queue_.Reject(std::move(message), std::move(done),
                         Named(absl::UnavailableError(absl::StrCat(
                             "the connection is closed", why.ok() ? "" : ": ", why.message()))));
  }
  if (message.payload_bytes() > kMaxInlinePayload) {
    share_.idle_memory().Watch(loop_, options_.pools.send);
  }
  const Ticket ticket = queue_.Push(std::move(message), std::move(done));
  if (queue_.has_finished()) resume_.SubmitTo(loop_);  // it did not fit
  if (!write_waits_) {
    end_of_turn_.RunAtEndOfTurnOf(loop_);
    if (++unflushed_ >= kMessagesBeforeFlush) Flush();
  }
  return ticket;
}

void Stream::Withdraw(Ticket ticket) {
  assert(loop_.IsDriver());
  queue_.Withdraw(ticket);
  if (queue_.has_finished()) resume_.SubmitTo(loop_);
  if (!write_waits_ && !queue_.empty()) end_of_turn_.RunAtEndOfTurnOf(loop_);  // an ABORT
}

void Stream::Abandon(Ticket ticket, absl::Status status) {
  assert(loop_.IsDriver());
  if (!assembler_.Abandon(ticket)) return;
  abandoned_.push_back({ticket, std::move(status)});
  resume_.SubmitTo(loop_);
}

void Stream::Close(absl::Status status) {
  assert(loop_.IsDriver());
  if (shut_) return;
  Flush();
  Shut(std::move(status));
}

void Stream::Detach() {
  receiver_ = nullptr;
  Shut(absl::CancelledError("the connection was destroyed"));
  OutgoingList finished = queue_.TakeFinished();
  while (Outgoing* outgoing = finished.PopFront()) share_.store().Return(outgoing);
}

ConnectionInfo Stream::info() const {
  ConnectionCounters counters = counters_.Read();
  counters.messages_sent = queue_.messages_sent();
  counters.bytes_sent = queue_.bytes_sent();
  counters.messages_received = assembler_.messages_received();
  counters.bytes_received = assembler_.bytes_received();
  counters.payload_bytes_copied += assembler_.payload_bytes_copied();
  counters.queued_messages = queue_.queued_messages();
  counters.queued_bytes = queue_.queued_bytes();
  return {options_.transport, options_.peer, options_.local, counters};
}

absl::Status Stream::Named(absl::Status status) const {
  return absl::Status(status.code(), absl::StrCat(options_.peer, ": ", status.message()));
}

// ---- turns ----

void Stream::OnEndOfTurn() {
  if (!shut_ && (!write_waits_ || hot_)) Flush();
  // After the flush: waiting costs a system call, and the peer can use that time.
  if (std::exchange(rearm_, false) && !hot_ && !shut_) WaitReadable();
  RunDones();
}

// What must not happen inside of the call or callback that asked for it.
void Stream::OnResume() {
  const bool was_shut = shut_;
  RunDones();
  if (was_shut && receiver_ != nullptr) {
    std::exchange(receiver_, nullptr)->OnClosed(close_status_);
  }
  if (shut_) return;  // if only just now, by a done: what that ends follows in the next turn
  TellAbandoned();
  if (std::exchange(write_more_, false)) end_of_turn_.RunAtEndOfTurnOf(loop_);
  if (!std::exchange(read_more_, false) || shut_) return;
  size_t bytes = 0;
  const ReadEnd end = receiver_ != nullptr ? ReadTurn(bytes) : ReadEnd::kDrained;
  if (end == ReadEnd::kDrained && !send_error_.ok()) {
    OnPeerGone(send_error_);
  } else {
    AfterRead(end);
  }
}

// Not those that finish because of what a done does: they come in a later turn.
void Stream::RunDones() {
  OutgoingList finished = queue_.TakeFinished();
  while (Outgoing* outgoing = finished.PopFront()) {
    SendDone done = std::move(outgoing->done);
    SendResult result{std::move(outgoing->status), outgoing->sent, {}};
    if (!result.sent) result.message = std::move(outgoing->message);
    share_.store().Return(outgoing);
    done(std::move(result));
  }
}

void Stream::TellAbandoned() {
  std::vector<Abandoned> abandoned = std::exchange(abandoned_, {});
  for (Abandoned& message : abandoned) {
    if (shut_) return;
    receiver_->OnAbandoned(message.ticket, std::move(message.status));
  }
}

// ---- the end ----

void Stream::Shut(absl::Status status) {
  if (shut_) return;
  shut_ = true;
  close_status_ = std::move(status);
  queue_.FailAll(close_status_.ok() ? Named(absl::CancelledError("the connection was closed"))
                                    : close_status_);
  assembler_.Stop();
  share_.idle_memory().Watch(loop_, options_.pools.receive);
  abandoned_.clear();
  handshake_.Disarm();
  GetCold();
  if (peer_gone_) {
    CloseSocket();
  } else {
    Linger();
  }
  resume_.SubmitTo(loop_);
}

void Stream::OnPeerGone(absl::Status status) {
  peer_gone_ = true;
  Shut(std::move(status));
}

void Stream::OnHandshakeTimeout() {
  Shut(Named(absl::UnavailableError(absl::StrCat(
      "the peer did not begin to speak Farcall within ",
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.handshake_timeout).count(),
      " ms: is it a Farcall server?"))));
}

// Says goodbye and throws away what still comes, so that the kernel delivers what was sent.
void Stream::Linger() {
  ::shutdown(socket_.native_handle(), SHUT_WR);
  loop_.timers().Arm(linger_, loop_.now() + kLinger);
  WaitReadable();
}

void Stream::DrainLinger() {
  const std::span<std::byte> buffer = share_.read_buffer();
  for (size_t calls = 0; calls < kCallsPerTurn; ++calls) {
    const ssize_t got = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), 0);
    if (got > 0) continue;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    CloseSocket();
    return;
  }
  WaitReadable();
}

void Stream::CloseSocket() {
  linger_.Disarm();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace farcall::tcp
