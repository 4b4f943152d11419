// The receiving half of Stream.

#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/log.h"
#include "farcall/rpc/probe.h"
#include "farcall/transports/tcp/errors.h"
#include "farcall/transports/tcp/stream.h"

namespace farcall::tcp {

// Asio asks epoll anew with each wait, so that what came before the wait is noticed too.
void Stream::WaitReadable() {
  if (read_waits_) return;
  read_waits_ = true;
  socket_.async_wait(Socket::wait_read,
                     WaitHandler<Stream>(shared_from_this(), &Stream::OnReadable, read_memory_));
}

void Stream::OnReadable(const boost::system::error_code& error) {
  read_waits_ = false;
  if (!socket_.is_open()) return;
  if (shut_) {
    DrainLinger();
    return;
  }
  if (error == asio::error::operation_aborted) return;
  // Not here, inside of Asio, where each coroutine that a message resumes pays for its frame.
  read_.RunAtEndOfTurnOf(loop_);
}

void Stream::OnReadTurn() {
  if (shut_ || receiver_ == nullptr) return;
  size_t bytes = 0;
  AfterRead(ReadTurn(bytes));
  if (bytes > 0) GetHot();
}

// Receives until nothing is left or this connection's share of the turn is used up.
Stream::ReadEnd Stream::ReadTurn(size_t& bytes) {
  ReadEnd end = ReadEnd::kMore;
  assembler_.Attach(share_.read_buffer());
  for (size_t calls = 0; calls < kCallsPerTurn && bytes < kBytesPerTurn; ++calls) {
    Assembler::Regions regions = assembler_.Want();
    FARCALL_PROBE(kPolls);
    const ssize_t got = ReceiveOnce(regions);
    if (got <= 0) {
      const int error = errno;
      if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK)) {
        end = ReadEnd::kDrained;
      } else {
        OnReadFailed(got, error);
        end = ReadEnd::kClosed;
      }
      break;
    }
    FARCALL_PROBE(kFound);
    ++counters_.receive_calls;
    bytes += static_cast<size_t>(got);
    const absl::Status status = TakeIn(static_cast<size_t>(got));
    if (!status.ok() && !shut_) OnViolation(status);
    if (shut_) {
      end = ReadEnd::kClosed;
      break;
    }
    if (static_cast<size_t>(got) < regions.bytes) {  // less than asked for: that was all
      end = ReadEnd::kDrained;
      break;
    }
  }
  assembler_.Detach();
  if (handshake_.armed() && assembler_.greeted()) handshake_.Disarm();
  return end;
}

ssize_t Stream::ReceiveOnce(Assembler::Regions& regions) {
  const int fd = socket_.native_handle();
  ssize_t got = 0;
  do {
    got = regions.count == 1 ? ::recv(fd, regions.region[0].iov_base, regions.region[0].iov_len, 0)
                             : ::readv(fd, regions.region.data(), static_cast<int>(regions.count));
  } while (got < 0 && errno == EINTR);
  return got;
}

// What a peer sends makes us allocate, here and in the receiver. When the heap has no more, that
// costs this connection, not the process.
absl::Status Stream::TakeIn(size_t bytes) {
  try {
    return assembler_.Received(bytes);
  } catch (const std::bad_alloc&) {
    assembler_.Stop();  // first of all: gives memory back
    Shut(Named(absl::ResourceExhaustedError("no memory is left for what the peer sends")));
    return absl::OkStatus();
  }
}

void Stream::AfterRead(ReadEnd end) {
  if (end == ReadEnd::kClosed || hot_) return;
  if (end == ReadEnd::kDrained) {
    rearm_ = true;
    end_of_turn_.RunAtEndOfTurnOf(loop_);
  } else {
    read_more_ = true;
    resume_.SubmitTo(loop_);
  }
}

void Stream::OnReadFailed(ssize_t result, int error) {
  const std::string position = assembler_.Position();
  const std::string where = position.empty() ? "" : absl::StrCat(" ", position);
  OnPeerGone(result == 0 ? Named(absl::UnavailableError(
                               absl::StrCat("the peer closed the connection", where)))
                         : SystemError(options_.peer, absl::StrCat("receiving", where), error));
}

void Stream::OnViolation(const absl::Status& rule) {
  ++counters_.violations;
  absl::Status status = Named(absl::UnavailableError(absl::StrCat(
      assembler_.greeted() ? "the peer broke a rule of the wire: " : "cannot talk to the peer: ",
      rule.message())));
  if (LogEnabled(LogLevel::kWarning)) {
    share_.warnings().Warn(loop_.now(), absl::StrCat("closing connection: ", status.message()));
  }
  Shut(std::move(status));
}

// ---- spinning loops: the socket is looked at in every turn, without epoll ----

void Stream::GetHot() {
  if (hot_ || shut_ || receiver_ == nullptr || loop_.mode() == ProgressMode::kEvent ||
      share_.hot_sockets >= kMaxHotSockets) {
    return;
  }
  hot_ = true;
  ++share_.hot_sockets;
  last_hot_ = loop_.now();
  loop_.AddPoller(*this);
}

void Stream::GetCold() {
  if (!std::exchange(hot_, false)) return;
  --share_.hot_sockets;
  loop_.RemovePoller(*this);
}

size_t Stream::Poll() {
  size_t bytes = 0;
  if (ReadTurn(bytes) == ReadEnd::kClosed) return 1;
  if (write_waits_) end_of_turn_.RunAtEndOfTurnOf(loop_);  // epoll is looked at more rarely
  if (bytes > 0) {
    last_hot_ = loop_.now();
    empty_polls_ = 0;
    return 1;
  }
  if (++empty_polls_ % kPollsPerYield != 0) return 0;
  ::sched_yield();
  if (loop_.now() - last_hot_ > kHotIdle) {
    GetCold();
    WaitReadable();
  }
  return 0;
}

bool Stream::Arm() {
  WaitReadable();
  return true;
}

// ---- what the assembler finds ----

Admission Stream::Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) {
  return receiver_->Admit(ticket, head, sizes);
}

void Stream::OnMessage(Ticket ticket, Message&& message) {
  if (message.payload_bytes() > kMaxInlinePayload) {
    share_.idle_memory().Watch(loop_, options_.pools.receive);
  }
  receiver_->OnMessage(ticket, std::move(message));
}

void Stream::OnAbandoned(Ticket ticket, absl::Status status) {
  share_.idle_memory().Watch(loop_, options_.pools.receive);
  receiver_->OnAbandoned(ticket, Named(std::move(status)));
}

void Stream::SendAbandon(uint32_t transfer) {
  queue_.PushAbandon(transfer);
  if (!write_waits_) end_of_turn_.RunAtEndOfTurnOf(loop_);
}

void Stream::DropAbandon(uint32_t transfer) { queue_.DropAbandon(transfer); }

absl::Status Stream::OnPeerAbandon(uint32_t transfer) {
  absl::Status status = queue_.PeerAbandoned(transfer);
  if (queue_.has_finished()) resume_.SubmitTo(loop_);
  if (!write_waits_) end_of_turn_.RunAtEndOfTurnOf(loop_);  // an ABORT
  return status;
}

}  // namespace farcall::tcp
