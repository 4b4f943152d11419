#include "farcall/bench/measure/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace farcall::bench {

absl::Status SetCongestionControl(int fd, const char* name) {
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, static_cast<socklen_t>(strlen(name))) ==
      0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, std::string("cannot set congestion control '") + name +
                                        "'; see sysctl net.ipv4.tcp_allowed_congestion_control");
}

}  // namespace farcall::bench
