// Every TCP socket of a peer's library has our congestion control: its sockets are made by this
// socket(), which comes before the system's.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "farcall/bench/measure/socket_options.h"
#include "farcall/bench/peers/peer.h"

namespace farcall::bench {

void UseOneCongestionControl() {}

}  // namespace farcall::bench

// Sockets that a listening one accepts inherit it.
extern "C" int socket(int domain, int type, int protocol) noexcept {
  const int fd = static_cast<int>(syscall(SYS_socket, domain, type, protocol));
  constexpr int kKinds = ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  const bool tcp =
      (domain == AF_INET || domain == AF_INET6) && (type & kKinds) == SOCK_STREAM && protocol <= 6;
  if (fd < 0 || !tcp || farcall::bench::SetCongestionControl(fd).ok()) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}
