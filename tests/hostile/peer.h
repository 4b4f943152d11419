// Peer: the raw end of a TCP connection that speaks the wire by hand, on blocking sockets with a
// bound on every wait: a test that would hang throws instead.

#ifndef FARCALL_TESTS_HOSTILE_PEER_H_
#define FARCALL_TESTS_HOSTILE_PEER_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "farcall/tests/hostile/wire_writer.h"
#include "farcall/tests/transports/tcp/raw_socket.h"

namespace farcall::hostile {

// A frame that the other side said.
struct Heard {
  Header header;
  std::string reason;  // STATUS_MESSAGE
  std::map<std::string, std::string> metadata;
  std::string body;
  std::string attachment;
};

class Peer {
 public:
  explicit Peer(tcp::testing::RawSocket socket) : socket_(std::move(socket)) {}
  // Connects and says nothing.
  static Peer Connect(const Endpoint& endpoint) {
    return Peer(tcp::testing::RawSocket::Connect(endpoint));
  }

  // False: the other side is gone.
  bool Say(std::string_view bytes) { return socket_.Write(bytes); }
  // The next frame, put together from its chunks; nothing when the connection ended. ABANDON
  // records are counted and skipped. Fails the test when the other side breaks the wire.
  std::optional<Heard> Hear();
  // The next frame that is of `type`, skipping others (HELLO, PING).
  std::optional<Heard> Hear(uint8_t type);
  // Reads until the connection ends.
  void HearTheEnd() { socket_.ReadToEnd(); }
  int abandons() const { return abandons_; }

  // Keeps the kernel from storing much of what is not read.
  void TakeLittle();
  void Finish() { socket_.Finish(); }
  void Reset() { socket_.Reset(); }

 private:
  bool HearPreamble();

  tcp::testing::RawSocket socket_;
  bool greeted_ = false;
  int abandons_ = 0;
};

}  // namespace farcall::hostile

#endif  // FARCALL_TESTS_HOSTILE_PEER_H_
