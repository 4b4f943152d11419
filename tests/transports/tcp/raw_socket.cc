#include "farcall/tests/transports/tcp/raw_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "farcall/transports/tcp/address.h"

namespace farcall::tcp::testing {
namespace {

constexpr int kPatienceSeconds = 10;

int Check(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

SocketAddress AddressOf(const Endpoint& endpoint) {
  return endpoint.scheme == "unix" ? UnixAddress(endpoint) : NumericAddress(endpoint).value();
}

int Open(const SocketAddress& address, int flags = 0) {
  const int fd =
      Check(::socket(address.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), "socket");
  const timeval patience{kPatienceSeconds, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  return fd;
}

}  // namespace

RawSocket::~RawSocket() {
  if (fd_ >= 0) ::close(fd_);
}

RawSocket RawSocket::Listen(const Endpoint& endpoint, int backlog) {
  const SocketAddress address = AddressOf(endpoint);
  RawSocket socket(Open(address));
  socket.endpoint_ = endpoint;
  Check(::bind(socket.fd_, address.data(), static_cast<socklen_t>(address.size())), "bind");
  Check(::listen(socket.fd_, backlog), "listen");
  return socket;
}

RawSocket RawSocket::Connect(const Endpoint& endpoint) {
  const SocketAddress address = AddressOf(endpoint);
  RawSocket socket(Open(address));
  Check(::connect(socket.fd_, address.data(), static_cast<socklen_t>(address.size())), "connect");
  return socket;
}

RawSocket RawSocket::StartConnect(const Endpoint& endpoint) {
  const SocketAddress address = AddressOf(endpoint);
  RawSocket socket(Open(address, SOCK_NONBLOCK));
  (void)::connect(socket.fd_, address.data(), static_cast<socklen_t>(address.size()));
  return socket;
}

RawSocket RawSocket::Accept() {
  RawSocket socket(Check(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC), "accept"));
  const timeval patience{kPatienceSeconds, 0};
  ::setsockopt(socket.fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(socket.fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  return socket;
}

Endpoint RawSocket::address() const {
  Endpoint endpoint = endpoint_;
  if (endpoint.scheme == "tcp") endpoint.port = BoundPort(fd_).value();
  return endpoint;
}

bool RawSocket::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return false;
    Check(static_cast<int>(sent < 0 ? -1 : 0), "send");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::string RawSocket::Read(size_t bytes) {
  std::string all(bytes, '\0');
  size_t size = 0;
  while (size < bytes) {
    const ssize_t got = ::recv(fd_, all.data() + size, bytes - size, 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) break;
    Check(static_cast<int>(got < 0 ? -1 : 0), "recv");
    size += static_cast<size_t>(got);
  }
  all.resize(size);
  return all;
}

bool RawSocket::ReadToEnd(std::string* all) {
  char buffer[65536];
  while (true) {
    const ssize_t got = ::recv(fd_, buffer, sizeof(buffer), 0);
    if (got == 0) return true;
    if (got < 0 && errno == ECONNRESET) return false;
    Check(static_cast<int>(got < 0 ? -1 : 0), "recv");
    if (all != nullptr) all->append(buffer, static_cast<size_t>(got));
  }
}

void RawSocket::Finish() { ::shutdown(fd_, SHUT_WR); }

void RawSocket::Reset() {
  const linger at_once{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  ::close(std::exchange(fd_, -1));
}

}  // namespace farcall::tcp::testing
