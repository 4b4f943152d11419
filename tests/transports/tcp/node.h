// Node: a loop with a thread of its own and the connections that live on it, for tests that need
// real sockets. The test's thread asks and waits; what it asks for runs on the loop.

#ifndef FARCALL_TESTS_TRANSPORTS_TCP_NODE_H_
#define FARCALL_TESTS_TRANSPORTS_TCP_NODE_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/transport.h"

namespace farcall::tcp::testing {

class Node;

// One connection of a node and all that was heard on it.
class Link final : public Receiver {
 public:
  explicit Link(Node& node) : node_(node) {}

  // ---- the test's thread ----
  void Send(std::string head, std::string body = {}, std::string attachment = {});
  void Close();
  absl::Status WaitClosed();
  std::string WaitMessage(size_t count);  // the head of message number `count`, from 1
  ConnectionInfo info();

  // Everything below is touched on the loop, or by the test inside Node::On.
  std::unique_ptr<Connection> connection;
  std::function<Admission(MessageSizes)> admit = [](MessageSizes) { return Admission{}; };
  std::function<void(Link&, Message&)> on_message;  // before it is counted

 private:
  friend class Node;
  Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) override;
  void OnMessage(Ticket ticket, Message&& message) override;
  void OnAbandoned(Ticket ticket, absl::Status status) override;
  void OnClosed(absl::Status status) override;

  Node& node_;
  std::vector<std::string> heads_;
  std::optional<absl::Status> closed_;
};

class Node {
 public:
  explicit Node(std::shared_ptr<Transport> transport, ProgressMode mode = ProgressMode::kEvent);
  ~Node();

  EventLoop& loop() { return loop_; }
  // Runs `work` on the driver and returns afterwards.
  void On(std::function<void()> work);
  // True when `done`, looked at on the loop, came true within some seconds.
  bool Wait(std::function<bool()> done);

  Endpoint Listen(const std::string& address = "tcp://127.0.0.1:0");
  absl::Status TryListen(const std::string& address);
  void StopListening();
  // The next accepted connection.
  Link& Accepted();
  absl::StatusOr<Link*> Connect(const Endpoint& endpoint,
                                Duration timeout = std::chrono::seconds(10));

  // For links that are accepted later.
  std::function<void(Link&)> on_link;

 private:
  Link& Adopt(std::unique_ptr<Connection> connection);

  const std::shared_ptr<Transport> transport_;
  EventLoop loop_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Link>> links_;  // on the loop
  std::vector<Link*> accepted_;               // on the loop
  size_t taken_ = 0;
};

// A node that sends every message back, head and payload.
void Echo(Link& link);

}  // namespace farcall::tcp::testing

#endif  // FARCALL_TESTS_TRANSPORTS_TCP_NODE_H_
