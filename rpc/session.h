// Session: one peer on one connection, whichever side called whom.
//
// It says and checks HELLO, validates every frame before anybody acts on it, answers and sends
// PING, passes GOAWAY, OFFERS and PROBE on, and ends the connection of a peer that breaks the
// rules. What calls mean is the business of the two sides that derive from it: ClientSession and
// ServerSession. Belongs to its loop's driver.

#ifndef FARCALL_RPC_SESSION_H_
#define FARCALL_RPC_SESSION_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "farcall/rpc/connection_list.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/frame.h"
#include "farcall/rpc/hello.h"
#include "farcall/rpc/limits.h"
#include "farcall/rpc/metrics.h"
#include "farcall/rpc/tally.h"
#include "farcall/rpc/timer_wheel.h"
#include "farcall/rpc/transport.h"

namespace farcall {

struct SessionOptions {
  MessageLimits limits = {};
  KeepaliveOptions keepalive = {};
  std::string authentication = {};  // opaque, told in HELLO
  std::string token = {};           // likewise: of an offer; empty: none
  // Where the session is listed from its making until its end; outlives it. nullptr: nowhere.
  ConnectionList* list = nullptr;
};

class Session : private Receiver, private Timer {
 public:
  Session(EventLoop& loop, std::unique_ptr<Connection> connection, SessionOptions options);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Sends HELLO and begins to listen. Once.
  void Start();
  // Instead: takes no call of this peer and tells it why, before any HELLO, so that nothing can be
  // sent here.
  void TurnAway(const absl::Status& reason);

  // Ends the connection: tells the peer why, then OnEnded follows in a later turn. Idempotent.
  void End(const absl::Status& reason);

  bool ready() const { return ready_ && !ending_; }
  const Hello& peer_hello() const { return peer_hello_; }
  const std::string& peer_address() const { return peer_address_; }
  ConnectionInfo connection_info() const { return connection_->info(); }
  EventLoop& loop() const { return loop_; }
  // Any thread, while the session is listed.
  ConnectionStats stats() const;

 protected:
  // The peer's HELLO was accepted.
  virtual void OnReady() = 0;
  // A REQUEST or REPLY was announced; its header and fields are well-formed.
  virtual Admission AdmitCall(Ticket ticket, const FrameHeader& header,
                              std::span<const std::byte> head, MessageSizes sizes) = 0;
  // It is whole.
  virtual void OnCall(const FrameHeader& header, Message&& message) = 0;
  // Both in one, of one that is here already and has no attachment.
  virtual void OnWholeCall(Ticket ticket, const FrameHeader& header, Message&& message) = 0;
  // An admitted one will not become whole.
  void OnAbandoned(Ticket ticket, absl::Status status) override = 0;
  virtual void OnCancel(uint64_t call) = 0;
  // There is no room for what SendAnswer was given. True: something smaller was said instead.
  virtual bool OnAnswerUnsent(const SendResult& /*unsent*/) { return false; }
  // OFFERS came; its fields are well-formed.
  virtual void OnOffers(const Head& head) = 0;
  // A PROBE of a fit size was announced. Not OK: it is not to be, the peer was told.
  virtual absl::Status AdmitProbe() = 0;
  // It is whole.
  virtual void OnProbe(const FrameHeader& header, Message&& probe) = 0;
  // The peer takes no new calls.
  virtual void OnDraining() = 0;
  // The connection is gone; the last callback. The session must not be destroyed inside it.
  virtual void OnEnded(const absl::Status& status) = 0;

  Connection& connection() { return *connection_; }
  const SessionOptions& options() const { return options_; }
  ConnectionTally& tally() { return tally_; }
  const ConnectionTally& tally() const { return tally_; }
  // Whether the peer's HELLO was ever accepted.
  bool greeted() const { return ready_; }
  // This side, or the peer, takes no new calls.
  void NoteDraining();
  // Sends what the peer made us say. Ends the connection of a peer for which too much waits
  // (limits.max_unread_answers, the transport's queue), unless OnAnswerUnsent knows better: losing
  // an answer would be worse, it is waited for.
  void SendAnswer(Message&& message);
  void SendControl(const FrameHeader& header);
  // Bytes of answers that did not leave yet.
  uint64_t unread_bytes() const { return unread_bytes_; }
  void SendGoAway(const absl::Status& status);
  // The peer broke a rule: says so and ends the connection. Returns the status for Admit.
  absl::Status Violation(absl::string_view rule);

 private:
  Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) final;
  void OnMessage(Ticket ticket, Message&& message) final;
  void OnWhole(Ticket ticket, Message&& message) final;
  void OnClosed(absl::Status status) final;
  void OnTimer() final;

  absl::Status Check(std::span<const std::byte> head, MessageSizes sizes, FrameHeader& header);
  absl::Status CheckProbe(MessageSizes sizes);
  void OnControl(const FrameHeader& header, Message&& message);
  void OnHello(const FrameHeader& header, const Head& head);
  void OnGoAway(const FrameHeader& header, const Head& head);
  bool TakesNothing(TimePoint now, uint64_t bytes_sent);
  void NoteEnding(const absl::Status& reason);
  void LeaveList();

  // Constant after construction.
  EventLoop& loop_;
  const SessionOptions options_;
  const std::unique_ptr<Connection> connection_;
  const std::string peer_address_;
  const TimePoint opened_at_;

  // Written here, read by any thread.
  std::atomic<ConnectionStats::State> state_{ConnectionStats::State::kHandshake};
  ConnectionTally tally_;
  Tally unread_bytes_, unread_answers_;

  Hello peer_hello_;
  absl::Status reason_;  // why it ends, when it was decided here or told by the peer
  TimePoint last_heard_{};
  uint64_t bytes_at_ping_ = 0;
  uint64_t sent_at_look_ = 0;  // bytes, when it was last looked whether the peer reads
  TimePoint takes_nothing_since_{};
  TimePoint probe_since_{};  // when the PROBE was announced that is not whole yet
  bool hello_seen_ = false;
  bool ready_ = false;
  bool ending_ = false;
  bool ping_pending_ = false;
  uint64_t listed_as_ = 0;  // 0: not any more
};

}  // namespace farcall

#endif  // FARCALL_RPC_SESSION_H_
