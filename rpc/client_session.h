// ClientSession: the calls that one connection carries for a channel.
//
// Belongs to the loop's driver. Calls enter by Carry and leave by the owner's Finish or Return,
// each exactly once.

#ifndef FARCALL_RPC_CLIENT_SESSION_H_
#define FARCALL_RPC_CLIENT_SESSION_H_

#include <memory>
#include <vector>

#include "farcall/rpc/call.h"
#include "farcall/rpc/call_table.h"
#include "farcall/rpc/path.h"
#include "farcall/rpc/session.h"

namespace farcall {

class ClientSession final : public Session {
 public:
  // Told on the driver, never from inside a method that the owner called, except Finish from
  // EndCall.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnSessionReady(ClientSession& session) = 0;
    // A place in the peer's limit of calls became free.
    virtual void OnCallLeft(ClientSession& session) = 0;
    // The call is out of the session's table, but still knows the session.
    virtual void Finish(ClientCall& call, absl::Status&& status, Message&& reply) = 0;
    // The connection ended before the answer, and the call may be sent by another: no byte of it
    // left, or it may run twice. Its message is whole again.
    virtual void Return(ClientCall& call) = 0;
    virtual void OnSessionDraining(ClientSession& session) = 0;
    virtual void OnSessionEnded(ClientSession& session, const absl::Status& status) = 0;
    // The answers to AskOffers and Probe.
    virtual void OnOffers(ClientSession& /*session*/, const std::vector<PathOffer>& /*offers*/) {}
    virtual void OnProbe(ClientSession& /*session*/, Buffer /*body*/) {}
    // A reply came for a call that had ended.
    virtual void OnLateReply() = 0;
  };

  ClientSession(EventLoop& loop, std::unique_ptr<Connection> connection, SessionOptions options,
                Owner& owner)
      : Session(loop, std::move(connection), std::move(options)), owner_(owner) {}

  // Whether Carry may be called: the peer said HELLO, serves less than its fill, and is not known
  // to be gone.
  bool takes_calls() const {
    return ready() && !lost_ && calls_.size() < peer_hello().max_calls_in_flight;
  }
  size_t calls() const { return calls_.size(); }
  // A call that this session carried is over.
  void NoteEnd(Duration took) { tally().End(took); }

  // Why the peer would refuse `call` for its size; OK when it would not.
  absl::Status CheckSize(const ClientCall& call) const;

  // Sends the call. Precondition: takes_calls(), CheckSize is OK.
  void Carry(ClientCall& call);

  // Ends the call before its reply, for `cause` (deadline, cancel, shutdown).
  void EndCall(ClientCall& call, const absl::Status& cause);

  // Whether the peer has other paths to offer, as it says.
  bool offers() const { return (peer_hello().features & kFeatureOffers) != 0; }
  // Owner::OnOffers follows, if the peer answers. Precondition: ready(), offers().
  void AskOffers();
  // Sends what the peer is to send back: Owner::OnProbe. One at a time. Precondition: ready(), at
  // most kMaxProbeBytes.
  void Probe(Buffer body);

  const std::shared_ptr<BufferPool>& pool() { return connection().pool(); }

 private:
  void OnReady() override { owner_.OnSessionReady(*this); }
  Admission AdmitCall(Ticket ticket, const FrameHeader& header, std::span<const std::byte> head,
                      MessageSizes sizes) override;
  void OnCall(const FrameHeader& header, Message&& message) override;
  void OnWholeCall(Ticket ticket, const FrameHeader& header, Message&& message) override;
  void OnAbandoned(Ticket ticket, absl::Status status) override;
  void OnCancel(uint64_t call) override;
  void OnOffers(const Head& head) override;
  absl::Status AdmitProbe() override;
  void OnProbe(const FrameHeader& header, Message&& probe) override;
  void OnDraining() override {
    NoteDraining();
    owner_.OnSessionDraining(*this);
  }
  void OnEnded(const absl::Status& reason) override;

  void OnSent(uint64_t id, SendResult result);
  void NoteLeft(ClientCall& call);
  // The request of `call` for the connection; a copy of it stays where it may be needed again.
  Message TakeMessage(ClientCall& call);
  // Whether `call`, which was sent, can be made again; then its message may be changed again.
  bool MakeRepeatable(ClientCall& call);
  void EndSent(ClientCall& call, const absl::Status& cause);
  // `cause` with the place where it met the call, and the peer.
  absl::Status With(const absl::Status& cause, absl::string_view where) const;
  // Not OK: the reply is for nobody. Else `call` is the one that waits for it.
  absl::Status Expect(Ticket ticket, const FrameHeader& header, MessageSizes sizes,
                      ClientCall*& call);
  void Answer(ClientCall& call, const FrameHeader& header, Message&& message);
  absl::Status CheckReply(MessageSizes sizes) const;
  // nullptr for a reply to a call that has ended.
  ClientCall* CallOf(const FrameHeader& reply) const;
  void Leave(ClientCall& call, absl::Status&& status, Message&& reply);

  Owner& owner_;
  CallTable calls_;
  uint32_t asked_offers_ = 0;  // and not answered yet
  bool probing_ = false;       // a PROBE is out
  bool lost_ = false;          // the connection takes nothing any more; OnEnded is on its way
};

}  // namespace farcall

#endif  // FARCALL_RPC_CLIENT_SESSION_H_
