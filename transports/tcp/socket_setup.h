// Making sockets and setting their options.

#ifndef FARCALL_TRANSPORTS_TCP_SOCKET_SETUP_H_
#define FARCALL_TRANSPORTS_TCP_SOCKET_SETUP_H_

#include <unistd.h>

#include <utility>

#include "absl/status/status.h"
#include "farcall/transports/tcp/tcp.h"

namespace farcall::tcp {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { Reset(); }

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void Reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A nonblocking stream socket that no child process inherits. Empty: see errno.
Descriptor OpenSocket(int family);

// What must be set before a connection is made, or on the listening socket from which an accepted
// one has it. INVALID_ARGUMENT names the option that the kernel refuses.
absl::Status SetBufferOptions(int socket, int family, const TcpOptions& options);
// What is set on every connected socket.
absl::Status SetConnectionOptions(int socket, int family, const TcpOptions& options);

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_SOCKET_SETUP_H_
