// A connection played by hand: what comes, what leaves and when is the script's to say, within what
// rpc/transport.h promises. No transport is so unlucky, and none is so fast.

#ifndef FARCALL_TESTS_FUZZ_WIRE_H_
#define FARCALL_TESTS_FUZZ_WIRE_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "farcall/rpc/frame.h"
#include "farcall/rpc/transport.h"

namespace farcall::fuzz {

// The script's end. Everything is called on the driver, from a turn of the script's own.
class Wire final : public std::enable_shared_from_this<Wire> {
 public:
  explicit Wire(std::shared_ptr<BufferPool> pool) : pool_(std::move(pool)) {}

  // The end for the session. Once.
  std::unique_ptr<Connection> Open();

  // Hears what the session sends while the connection is up: well-formed, or the fuzzer is told.
  std::function<void(const FrameHeader&, const Message&)> on_heard = [](const FrameHeader&,
                                                                        const Message&) {};
  // Hears the header of each message that is about to end as sent.
  std::function<void(const FrameHeader&)> on_left = [](const FrameHeader&) {};
  std::function<void(const FrameHeader&)> on_overflow = [](const FrameHeader&) {};  // it did not

  // Says a message: it is announced, and whole at once unless `later` (only for a payload: heads
  // keep their order).
  void Say(Message message, bool later);
  // The `which`-th of the messages that were announced comes whole, or is given up.
  void Complete(size_t which);
  void GiveUp(size_t which);

  // The oldest message leaves.
  void Leave();
  // The oldest message turns out not to have fitted.
  void Overflow();
  // The connection breaks.
  void Cut();
  // What the contract owes: withdrawn and abandoned messages, the end.
  void Turn();

  bool closed() const { return closed_; }
  bool idle() const { return waiting_.empty() && coming_.empty() && abandoned_.empty(); }

 private:
  class End;
  struct Waiting {
    Ticket ticket = 0;
    FrameHeader header;
    Message message;
    SendDone done;
    bool withdrawn = false;
    bool rejected = false;  // sent when the connection was closed already
  };

  Ticket Send(Message&& message, SendDone&& done);
  void Withdraw(Ticket ticket);
  void Abandon(Ticket ticket, absl::Status status);
  void Close(absl::Status status);
  void Finish(Waiting waiting, absl::Status status, bool sent);
  FrameHeader Hear(const Message& message);

  const std::shared_ptr<BufferPool> pool_;
  Receiver* receiver_ = nullptr;
  bool closed_ = false;  // by either side; the receiver may not know yet
  absl::Status why_;
  bool last_word_ = false;  // a GOAWAY that ends the connection was heard
  Ticket last_sent_ = 0;
  Ticket last_admitted_ = 0;
  std::deque<Waiting> waiting_;
  std::map<Ticket, Message> coming_;  // admitted, not whole
  std::vector<std::pair<Ticket, absl::Status>> abandoned_;
};

}  // namespace farcall::fuzz

#endif  // FARCALL_TESTS_FUZZ_WIRE_H_
