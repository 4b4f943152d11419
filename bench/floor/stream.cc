#include "farcall/bench/floor/stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/socket_options.h"

namespace farcall::bench {
namespace {

// How many fruitless attempts in busy mode pass between looks at the clock.
constexpr uint32_t kSpinsPerClock = 4096;

sockaddr_in LoopbackAddress(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

absl::Status SetOption(const FileDescriptor& fd, int level, int option, const auto& value,
                       const char* what) {
  if (setsockopt(fd.get(), level, option, &value, sizeof(value)) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, std::string("cannot set ") + what);
}

template <typename Call>
auto RetryInterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<FileDescriptor> ListenOnLoopback(uint16_t port) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return absl::ErrnoToStatus(errno, "socket");
  absl::Status status = SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  if (status.ok()) status = SetCongestionControl(fd.get());
  if (!status.ok()) return status;
  const sockaddr_in address = LoopbackAddress(port);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    return absl::ErrnoToStatus(errno, "cannot listen on 127.0.0.1:" + std::to_string(port));
  }
  return fd;
}

absl::StatusOr<uint16_t> PortOf(const FileDescriptor& listener) {
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return absl::ErrnoToStatus(errno, "getsockname");
  }
  return ntohs(address.sin_port);
}

absl::StatusOr<Stream> Stream::Connect(uint16_t port, Mode mode, std::chrono::seconds patience) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return absl::ErrnoToStatus(errno, "socket");
  absl::Status status = SetCongestionControl(fd.get());
  if (!status.ok()) return status;
  // Connects before it spins: on loopback that is done, or refused, within the call.
  Stream stream(std::move(fd), mode, patience);
  const sockaddr_in address = LoopbackAddress(port);
  if (RetryInterrupted([&] {
        return connect(stream.fd_.get(), reinterpret_cast<const sockaddr*>(&address),
                       sizeof(address));
      }) != 0) {
    return absl::ErrnoToStatus(
        errno, "cannot connect to the floor's server at 127.0.0.1:" + std::to_string(port));
  }
  status = stream.Prepare();
  if (!status.ok()) return status;
  return stream;
}

absl::StatusOr<Stream> Stream::Accept(const FileDescriptor& listener, Mode mode,
                                      std::chrono::seconds patience) {
  FileDescriptor fd(
      RetryInterrupted([&] { return accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC); }));
  if (fd.get() < 0) return absl::ErrnoToStatus(errno, "accept");
  Stream stream(std::move(fd), mode, patience);
  const absl::Status status = stream.Prepare();
  if (!status.ok()) return status;
  return stream;
}

absl::Status Stream::Prepare() {
  absl::Status status = SetOption(fd_, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
  if (!status.ok()) return status;
  if (mode_ == Mode::kBusy) {
    if (fcntl(fd_.get(), F_SETFL, O_NONBLOCK) == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, "O_NONBLOCK");
  }
  const timeval limit{.tv_sec = patience_.count(), .tv_usec = 0};
  status = SetOption(fd_, SOL_SOCKET, SO_RCVTIMEO, limit, "SO_RCVTIMEO");
  if (status.ok()) status = SetOption(fd_, SOL_SOCKET, SO_SNDTIMEO, limit, "SO_SNDTIMEO");
  return status;
}

// Repeats a socket call until it moves bytes or finds the end. EAGAIN means 'not yet' to a spinning
// socket and 'the time is up' to a blocking one.
template <typename Attempt>
absl::StatusOr<size_t> Stream::Repeat(const char* operation, Attempt attempt) {
  const std::chrono::nanoseconds patience = patience_;
  uint64_t deadline_ns = 0;
  for (uint32_t spins = 1;; ++spins) {
    const ssize_t bytes = attempt();
    if (bytes >= 0) return static_cast<size_t>(bytes);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      return absl::ErrnoToStatus(errno, std::string("floor connection: ") + operation);
    }
    if (mode_ == Mode::kBusy) {
      if (spins % kSpinsPerClock != 0) continue;
      const uint64_t now_ns = NowNs();
      if (deadline_ns == 0) deadline_ns = now_ns + static_cast<uint64_t>(patience.count());
      if (now_ns < deadline_ns) continue;
    }
    return absl::DeadlineExceededError(std::string("floor connection: ") + operation +
                                       " made no progress for " +
                                       std::to_string(patience_.count()) + " s");
  }
}

absl::Status Stream::Write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const absl::StatusOr<size_t> written =
        Repeat("send", [&] { return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    if (!written.ok()) return written.status();
    bytes = bytes.subspan(*written);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> Stream::Read(std::span<uint8_t> room) {
  return Repeat("receive", [&] { return recv(fd_.get(), room.data(), room.size(), 0); });
}

}  // namespace farcall::bench
