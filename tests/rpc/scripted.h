// A peer that speaks frames by hand, and a world without threads where time stands still: for tests
// of what a session does with whatever its peer says.

#ifndef FARCALL_TESTS_RPC_SCRIPTED_H_
#define FARCALL_TESTS_RPC_SCRIPTED_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "farcall/rpc/hello.h"
#include "farcall/tests/rpc/probe.h"

namespace farcall::testing {

// One loop that the test steps, one clock that it moves, one network, one pool.
class World {
 public:
  explicit World(TransportLimits limits = {});

  // Turns until nothing is left to do.
  void Settle();
  void Turn() { loop->RunOnce(); }
  // Moves the clock, then settles.
  void Pass(Duration time);
  // Runs `work` on the loop's driver, in a turn of its own.
  void OnLoop(std::function<void()> work);

  ManualClock clock;
  std::shared_ptr<EventLoop> loop;
  std::shared_ptr<BufferPool> pool = std::make_shared<BufferPool>();
  std::shared_ptr<Transport> transport;
  Endpoint endpoint = *ParseEndpoint("loopback://world");
};

// A message that the peer heard.
struct Heard {
  FrameHeader header;
  absl::Status status;  // of REPLY and GOAWAY
  Metadata metadata;
  Message message;
};

// The raw end of a connection. Everything is said in the next turn and heard when the world turns.
class Peer final : private Receiver {
 public:
  // `listens` false: takes nothing in until Listen.
  Peer(World& world, std::unique_ptr<Connection> connection, bool listens = true);
  ~Peer() override;

  void Listen();
  void Say(const FrameHeader& header, const std::vector<Field>& fields = {}, Buffer body = {},
           Buffer attachment = {});
  // The same, of bytes that are no frame.
  void SayRaw(std::string_view head, Buffer body = {});
  void SayHello(const Hello& hello = UsualHello());
  static Hello UsualHello();
  void Close();
  // The same, but only in the next turn.
  void CloseLater();

  // Takes the oldest message that was not taken yet; fails the test when there is none.
  Heard Next();
  // The next one, which must be of `type`.
  Heard Next(FrameType type);
  bool silent() const { return heard_.empty(); }
  void Forget() { heard_.clear(); }
  bool closed() const { return closed_.has_value(); }
  // Turned down before they were whole.
  int abandoned() const { return abandoned_; }

 private:
  Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) override;
  void OnMessage(Ticket ticket, Message&& message) override;
  void OnAbandoned(Ticket /*ticket*/, absl::Status /*status*/) override { ++abandoned_; }
  void OnClosed(absl::Status status) override { closed_ = std::move(status); }
  void Send(Message message);

  World& world_;
  std::unique_ptr<Connection> connection_;
  std::deque<Heard> heard_;
  std::optional<absl::Status> closed_;
  int abandoned_ = 0;
};

// A body of `bytes` bytes that is no FlatBuffer.
Buffer Garbage(World& world, size_t bytes);
// A well-formed request and reply.
Buffer AskBody(World& world, const std::string& action, uint64_t number = 0, size_t data_bytes = 0);
Buffer AnswerBody(World& world, const std::string& text, size_t data_bytes = 0);

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_RPC_SCRIPTED_H_
