// A peer that is nothing but a socket: what hostile and broken peers are made of.

#ifndef FARCALL_TESTS_TRANSPORTS_TCP_RAW_SOCKET_H_
#define FARCALL_TESTS_TRANSPORTS_TCP_RAW_SOCKET_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "farcall/rpc/endpoint.h"

namespace farcall::tcp::testing {

// Blocking, with a bound of some seconds on every call, after which it throws: a test that hangs
// says where.
class RawSocket {
 public:
  static RawSocket Listen(const Endpoint& endpoint, int backlog = 16);
  static RawSocket Connect(const Endpoint& endpoint);
  // Does not wait for the connection.
  static RawSocket StartConnect(const Endpoint& endpoint);

  RawSocket(RawSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), endpoint_(std::move(other.endpoint_)) {}
  RawSocket& operator=(RawSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(endpoint_, other.endpoint_);
    return *this;
  }
  ~RawSocket();

  RawSocket Accept();
  // Where it listens, with the port.
  Endpoint address() const;
  int fd() const { return fd_; }

  // False: the peer is gone.
  bool Write(std::string_view bytes);
  // At most `bytes`; less when the peer closes or resets first.
  std::string Read(size_t bytes);
  // Reads until the peer closes. True: an orderly end; false: a reset.
  bool ReadToEnd(std::string* all = nullptr);
  // Half-closes.
  void Finish();
  // Closes with a reset.
  void Reset();

 private:
  explicit RawSocket(int fd) : fd_(fd) {}

  int fd_ = -1;
  Endpoint endpoint_;
};

}  // namespace farcall::tcp::testing

#endif  // FARCALL_TESTS_TRANSPORTS_TCP_RAW_SOCKET_H_
