// The sending half of Stream.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "farcall/rpc/probe.h"
#include "farcall/transports/tcp/errors.h"
#include "farcall/transports/tcp/stream.h"

namespace farcall::tcp {

// Gives the kernel what is queued, until it takes no more or this connection's share of the turn is
// used up. Runs no callback.
void Stream::Flush() {
  unflushed_ = 0;
  if (!send_error_.ok()) return;
  SendBatch& batch = share_.batch();
  size_t written = 0;
  while (!queue_.empty()) {
    if (written >= kBytesPerTurn) {
      write_more_ = true;
      resume_.SubmitTo(loop_);
      break;
    }
    queue_.Gather(batch);
    const ssize_t sent = SendOnce(batch);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        WaitWritable();
      } else {
        OnWriteFailed(errno);
      }
      return;
    }
    FARCALL_PROBE(kPosted);
    ++counters_.send_calls;
    written += static_cast<size_t>(sent);
    queue_.Written(batch, static_cast<size_t>(sent));
    if (static_cast<size_t>(sent) < batch.bytes) {  // less than offered: there is no more room
      WaitWritable();
      break;
    }
  }
  if (written > 0) GetHot();  // an answer will come
}

// What the kernel took of it, or -1 and errno.
ssize_t Stream::SendOnce(const SendBatch& batch) {
  const int fd = socket_.native_handle();
  if (batch.count == 1) {
    return ::send(fd, batch.regions[0].iov_base, batch.regions[0].iov_len, MSG_NOSIGNAL);
  }
  if (batch.bytes <= std::min(kJoinedBytes, batch.count * kJoinedRegionBytes)) {
    std::byte joined[kJoinedBytes];
    size_t bytes = 0;
    for (const iovec& region : std::span(batch.regions).first(batch.count)) {
      std::memcpy(joined + bytes, region.iov_base, region.iov_len);
      bytes += region.iov_len;
    }
    counters_.payload_bytes_copied += batch.small_payload;
    return ::send(fd, joined, bytes, MSG_NOSIGNAL);
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(batch.regions.data());  // has no const form
  message.msg_iovlen = batch.count;
  return ::sendmsg(fd, &message, MSG_NOSIGNAL);
}

void Stream::WaitWritable() {
  if (std::exchange(write_waits_, true)) return;
  socket_.async_wait(Socket::wait_write,
                     WaitHandler<Stream>(shared_from_this(), &Stream::OnWritable, write_memory_));
}

void Stream::OnWritable(const boost::system::error_code&) {
  write_waits_ = false;
  if (shut_) return;
  OnEndOfTurn();
}

// The peer may have said why before it went: what it sent is read before the connection ends.
void Stream::OnWriteFailed(int error) {
  send_error_ = SystemError(options_.peer, "sending", error);
  read_more_ = true;
  resume_.SubmitTo(loop_);
}

}  // namespace farcall::tcp
