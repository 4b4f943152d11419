#include "farcall/transports/tcp/socket_setup.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/transports/tcp/errors.h"

namespace farcall::tcp {
namespace {

absl::Status Refused(std::string_view option, std::string_view value) {
  return absl::InvalidArgumentError(absl::StrCat("TcpOptions: the kernel refuses ", Absl(option),
                                                 " = ", Absl(value), ": ", ErrorText(errno)));
}

absl::Status Set(int socket, int level, int name, std::string_view option, int value) {
  if (::setsockopt(socket, level, name, &value, sizeof(value)) == 0) return absl::OkStatus();
  return Refused(option, std::to_string(value));
}

// In units of `Unit`, at least one.
template <typename Unit>
int Count(Duration duration) {
  const auto count = std::chrono::ceil<Unit>(duration).count();
  return static_cast<int>(std::clamp<decltype(count)>(count, 1, std::numeric_limits<int>::max()));
}

absl::Status SetKeepalive(int socket, const TcpOptions& options) {
  if (options.keepalive_idle <= Duration::zero()) return absl::OkStatus();
  const int idle = Count<std::chrono::seconds>(options.keepalive_idle);
  const int interval = Count<std::chrono::seconds>(options.keepalive_interval);
  absl::Status status = Set(socket, SOL_SOCKET, SO_KEEPALIVE, "keepalive", 1);
  status.Update(Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, "keepalive_idle", idle));
  status.Update(Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, "keepalive_interval", interval));
  status.Update(
      Set(socket, IPPROTO_TCP, TCP_KEEPCNT, "keepalive_probes", options.keepalive_probes));
  return status;
}

}  // namespace

Descriptor OpenSocket(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

absl::Status SetBufferOptions(int socket, int family, const TcpOptions& options) {
  absl::Status status;
  if (options.send_buffer_bytes > 0) {
    status.Update(
        Set(socket, SOL_SOCKET, SO_SNDBUF, "send_buffer_bytes", options.send_buffer_bytes));
  }
  if (options.receive_buffer_bytes > 0) {
    status.Update(
        Set(socket, SOL_SOCKET, SO_RCVBUF, "receive_buffer_bytes", options.receive_buffer_bytes));
  }
  const std::string& control = options.congestion_control;
  if (family != AF_UNIX && !control.empty() &&
      ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, control.data(),
                   static_cast<socklen_t>(control.size())) != 0) {
    status.Update(Refused("congestion_control", control));
  }
  return status;
}

absl::Status SetConnectionOptions(int socket, int family, const TcpOptions& options) {
  if (family == AF_UNIX) return absl::OkStatus();
  // Messages leave when they are gathered: the kernel need not wait for more.
  absl::Status status = Set(socket, IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY", 1);
  status.Update(SetKeepalive(socket, options));
  if (options.user_timeout > Duration::zero()) {
    const int timeout = Count<std::chrono::milliseconds>(options.user_timeout);
    status.Update(Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, "user_timeout", timeout));
  }
  if (options.unsent_bytes > 0) {
    status.Update(
        Set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, "unsent_bytes", options.unsent_bytes));
  }
  return status;
}

}  // namespace farcall::tcp
