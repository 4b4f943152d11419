// Peer: one end of a connection in the hands of a test. It records what happens, and blames the
// transport at once for whatever no test has to ask for: a callback inside a call, off the loop,
// twice or after the end, a message that is not whole, heads or small messages out of order.

#ifndef FARCALL_TESTS_TRANSPORTS_CONFORMANCE_PEER_H_
#define FARCALL_TESTS_TRANSPORTS_CONFORMANCE_PEER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/transport.h"
#include "farcall/tests/transports/conformance/messages.h"

namespace farcall::testing {

class Arena;

// How a Send ended.
struct Outcome {
  absl::Status status;
  bool sent = false;
};

struct Sent {
  Ticket ticket = 0;
  uint64_t number = 0;  // in the message's label
};

class Peer final : private Receiver {
 public:
  // What a test does inside callbacks, on the loop; set before Start. What happened is recorded
  // after the hook, so that a test that sees it may use what the hook left. A hook may take the
  // message.
  struct Hooks {
    std::function<Admission(Ticket, MessageSizes)> admit;
    std::function<void(Ticket, Message&)> message;
    std::function<void(Ticket)> abandoned;
    std::function<void(Ticket, SendResult&)> done;
    std::function<void()> closed;
  };
  Hooks hooks;

  Peer(Arena& arena, std::string name, EventLoop& loop, std::unique_ptr<Connection> connection);
  ~Peer() override;

  EventLoop& loop() { return loop_; }
  const std::shared_ptr<BufferPool>& pool() const { return pool_; }

  // ---- the connection's calls: from the main thread, or on the loop ----
  void Start();
  Sent Send(Parts parts);
  Sent Send(Message message, uint64_t number);
  void SendAndForget(Parts parts);  // without a `done`
  void Withdraw(Ticket ticket);
  void Abandon(Ticket ticket, absl::Status status);
  void Close(absl::Status status);
  void Destroy();
  ConnectionInfo info();
  // For what a transport's own tests ask; on the loop, or while nobody drives it.
  const Connection& connection() const { return *connection_; }
  // Several calls in one turn.
  void Do(const std::function<void()>& work);

  // ---- what happened; any thread ----
  size_t admitted() const;
  size_t received() const;
  bool Received(uint64_t number) const;
  // In which order messages came, by number.
  std::vector<uint64_t> order() const;
  // By number of the message; OnAbandoned's status.
  std::optional<absl::Status> Abandoned(uint64_t number) const;
  std::optional<Outcome> outcome(Sent sent) const;
  size_t outcomes() const;
  size_t sends() const;
  std::optional<absl::Status> closed() const;  // OnClosed's status
  // What happened when, a line each: the loop's time in microseconds, then the event.
  std::vector<std::string> history() const;
  // The ticket that Admit gave a message; 0: not yet.
  Ticket TicketOf(uint64_t number) const;
  bool started() const;
  bool destroyed() const;
  // Callbacks of Send that neither ran nor were destroyed.
  size_t live_dones() const { return static_cast<size_t>(done_token_.use_count()) - 1; }

  // Says who sits at the other end, once, before anything is sent.
  void ConnectTo(Peer& other);
  // Messages that came back unsent while the other end saw their heads: there must be none.
  std::vector<uint64_t> UnsentThatArrived() const;

 private:
  class InCall;
  enum class Fate { kAdmitted, kRefused, kWhole, kAbandoned };
  struct Incoming {
    uint64_t number = 0;  // 0: the head has no label
    bool small = false;
    Fate fate = Fate::kAdmitted;
    absl::Status abandoned;
  };

  Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) override;
  void OnMessage(Ticket ticket, Message&& message) override;
  void OnWhole(Ticket ticket, Message&& message) override;
  void OnAbandoned(Ticket ticket, absl::Status status) override;
  void OnClosed(absl::Status status) override;
  void NoteLeft(Ticket ticket);
  void OnDone(Ticket ticket, uint64_t number, SendResult result);

  void CheckCallback(const char* what, bool closing = false);
  void NoteAdmit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes);
  void NoteEnd(const char* what, Ticket ticket, Fate fate, absl::Status status);
  void CheckMessage(const Message& message);
  void CheckReturned(const Message& message, size_t bytes);
  void Note(const std::string& event);
  void Blame(const std::string& what);

  Arena& arena_;
  const std::string name_;
  EventLoop& loop_;
  std::unique_ptr<Connection> connection_;  // touched on the loop only, as the next two
  int calls_ = 0;                           // of the connection that are on the stack
  uint64_t last_number_ = 0;
  const std::shared_ptr<BufferPool> pool_;
  Peer* other_ = nullptr;                                            // constant after ConnectTo
  const std::shared_ptr<int> done_token_ = std::make_shared<int>();  // a copy in each SendDone

  mutable Mutex mutex_;
  std::map<Ticket, Incoming> incoming_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> order_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_admitted_number_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_small_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> history_ ABSL_GUARDED_BY(mutex_);
  size_t received_ ABSL_GUARDED_BY(mutex_) = 0;
  Ticket last_sent_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Ticket, Outcome> outcomes_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> unsent_ ABSL_GUARDED_BY(mutex_);
  std::optional<Ticket> sends_at_close_ ABSL_GUARDED_BY(mutex_);  // once we called Close
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool destroyed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_TRANSPORTS_CONFORMANCE_PEER_H_
