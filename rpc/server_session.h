// ServerSession: the calls that one peer makes. Belongs to its loop's driver.

#ifndef FARCALL_RPC_SERVER_SESSION_H_
#define FARCALL_RPC_SERVER_SESSION_H_

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "farcall/rpc/context.h"
#include "farcall/rpc/server_loop.h"
#include "farcall/rpc/session.h"

namespace farcall {

class ServerSession final : public Session {
 public:
  ServerSession(ServerLoop& home, std::unique_ptr<Connection> connection, SessionOptions options);
  ~ServerSession() override;

  // Tells the peer that no new calls are taken; the connection ends when the peer closes it.
  void Drain();

  // Called now and then while the server drains: ends a connection that had nothing to do the last
  // time either.
  void EndIfIdle();

  // Sends the result of `call`; returns its status as it left.
  absl::StatusCode Reply(ServerCall& call);
  // Takes `call` out of the table.
  void Forget(const ServerCall& call);
  // A call whose handler was run is over.
  void NoteEnd(Duration took) { tally().End(took); }
  // The deadline of `call` passed.
  void Expire(ServerCall& call);

  // Cancels every call; they finish without this session. Returns how many there were.
  size_t Orphan();

 private:
  void OnReady() override;
  Admission AdmitCall(Ticket ticket, const FrameHeader& header, std::span<const std::byte> head,
                      MessageSizes sizes) override;
  void OnCall(const FrameHeader& header, Message&& message) override;
  void OnWholeCall(Ticket ticket, const FrameHeader& header, Message&& message) override;
  void OnAbandoned(Ticket ticket, absl::Status status) override;
  void OnCancel(uint64_t call) override;
  bool OnAnswerUnsent(const SendResult& unsent) override;
  void OnOffers(const Head& head) override;
  absl::Status AdmitProbe() override;
  void OnProbe(const FrameHeader& header, Message&& probe) override;
  void OnDraining() override {}  // a caller that drains just makes no more calls
  void OnEnded(const absl::Status& status) override;

  // Where its listener has other paths: has the host know this session, or ends it.
  void EnterPaths();
  void LeavePaths();

  // Not OK: the call is not to be; the peer was told. Else `call` is it, not listed yet.
  absl::Status Take(Ticket ticket, const FrameHeader& header, MessageSizes sizes,
                    ServerCall*& call);
  // It may be found by its id, and ends by `due`.
  void List(ServerCall& call, TimePoint due);
  // Runs the handler of a request that is whole.
  void Serve(ServerCall& call, Message&& message);
  absl::Status Refusal(const FrameHeader& header, const BoundMethod* method,
                       MessageSizes sizes) const;
  // Of the requests of calls_, as they were announced.
  uint64_t held_bytes() const { return tally().held_bytes; }
  // Whether there is room beside the calls that are under way.
  absl::Status CheckRoom(uint64_t bytes) const;
  // Answers without a handler. `method` is null when nobody knows it.
  void Refuse(uint64_t id, const MethodInfo* method, const absl::Status& status);
  void Drop(ServerCall& call);
  // How it left: what the metadata turned it into, and its length.
  struct Sent {
    absl::StatusCode code;
    uint64_t bytes;
  };
  // The head of `message` is made here; an error has no payload.
  Sent SendStatus(uint64_t id, const absl::Status& status, uint8_t flags, const Metadata& metadata,
                  Message&& message);

  ServerLoop& home_;
  std::shared_ptr<PeerIdentity> peer_;
  absl::flat_hash_map<uint64_t, ServerCall*> calls_;
  // The ids of calls whose payload is large and on its way, or was given up here and not yet there.
  absl::flat_hash_map<Ticket, uint64_t> large_;
  bool was_idle_ = false;  // at the last EndIfIdle

  // For whoever ends this session from another loop: null once it is gone. Its own loop's.
  std::shared_ptr<ServerSession*> anchor_;
  uint64_t path_id_ = 0;  // with the connection's path host
  bool in_paths_ = false;
  bool probe_coming_ = false;  // announced, and not whole
};

}  // namespace farcall

#endif  // FARCALL_RPC_SERVER_SESSION_H_
