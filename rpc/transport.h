// The transport boundary: what a room under transports/ implements and all that rpc/ knows of a
// wire.
//
// Message-oriented: whole messages go in and come out; prefixes and chunks are the transport's
// business. Everything here runs on the driver of the connection's EventLoop
// (EventLoop::IsDriver()) unless it says "any thread". What every transport promises, proven by
// tests/transports/conformance:
//   - heads reach Admit in the order of Send; OnMessage follows when the payload is whole, so that
//     a small message may overtake a large one, but a message without payload or with a small one
//     (<= 64 KiB) never overtakes an earlier one of that kind;
//   - a large payload never holds up control or small messages;
//   - each message arrives whole and once; every callback runs exactly once and never inside the
//     call that started it;
//   - no Withdraw, Abandon or Close frees memory that the wire may still touch;
//   - a refused, oversize or malformed message harms its own message or its own connection, nobody
//     else.

#ifndef FARCALL_RPC_TRANSPORT_H_
#define FARCALL_RPC_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/buffer.h"
#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/endpoint.h"
#include "farcall/rpc/message.h"
#include "farcall/rpc/path.h"
#include "farcall/rpc/tally.h"

namespace farcall {

class EventLoop;

// Names one message of one connection and direction; counts up from 1. Tickets of Send and of Admit
// are separate sequences.
using Ticket = uint64_t;

// How a Send ended.
struct SendResult {
  absl::Status status;  // OK: the message left whole, in order, for the wire
  bool sent = false;    // false: no byte of it left; true: the peer may have it or a part of it
  Message message;      // when !sent: the message back, as it was given
};
// May be empty when nobody cares. Two pointers of captures are stored without allocation.
using SendDone = absl::AnyInvocable<void(SendResult)>;

// What Admit answers.
struct Admission {
  absl::Status
      refused;  // not OK: the payload is skipped, OnMessage never follows, the connection goes on
  Buffer attachment;  // optional: receive the attachment into this (capacity >= its size)
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // A message's head has arrived whole (at most kMaxHeadBytes; all of it unchecked peer bytes) and
  // its payload is announced. `head` is valid during the call only. Sizes may be anything.
  virtual Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) = 0;
  // An admitted message is whole. Body and attachment are private memory that the peer cannot
  // change any more, and kBufferAlignment-aligned, unless Admit gave memory that is not. What is
  // not moved from goes when this returns.
  virtual void OnMessage(Ticket ticket, Message&& message) = 0;
  // Both in one, of a message without an attachment that is here already: what is not admitted goes
  // when this returns. As it stands it is for receivers that never admit what they close for.
  virtual void OnWhole(Ticket ticket, Message&& message) {
    const MessageSizes sizes{message.body.size(), 0};
    if (Admit(ticket, message.head.bytes(), sizes).refused.ok()) {
      OnMessage(ticket, std::move(message));
    }
  }
  // An admitted message will not become whole: Abandon was called, its sender gave it up, or no
  // memory could be had (RESOURCE_EXHAUSTED). The connection goes on. Every message admitted on a
  // live connection ends in OnMessage or here; those pending at OnClosed end with it.
  virtual void OnAbandoned(Ticket ticket, absl::Status status) = 0;
  // The last callback. Why the connection ended: the status given to Close, or what the peer or the
  // wire did, naming the peer. UNAVAILABLE for an ordinary disconnect.
  virtual void OnClosed(absl::Status status) = 0;
};

struct ConnectionCounters {
  uint64_t messages_sent = 0, messages_received = 0;
  uint64_t bytes_sent = 0,
           bytes_received = 0;  // payload and heads, without the transport's own prefixes
  uint64_t send_calls = 0, receive_calls = 0;  // system calls or doorbells that moved data
  uint64_t payload_bytes_copied = 0;           // by the CPU in user space, both directions
  uint64_t violations = 0;                     // wire rules the peer broke
  uint64_t queued_messages = 0;                // that wait to be sent now
  uint64_t queued_bytes = 0;                   // of them, as max_queued_bytes counts
};

// The same while a connection counts it: by its driver, for any reader.
struct ConnectionTallies {
  Tally messages_sent, messages_received, bytes_sent, bytes_received, send_calls, receive_calls,
      payload_bytes_copied, violations, queued_messages, queued_bytes;

  ConnectionCounters Read() const {
    return {messages_sent, messages_received,    bytes_sent, bytes_received,  send_calls,
            receive_calls, payload_bytes_copied, violations, queued_messages, queued_bytes};
  }
};

struct ConnectionInfo {
  std::string transport;     // "tcp", "unix", "loopback"
  std::string peer_address;  // "tcp://10.0.0.7:41022", as far as it is known
  std::string local_address;
  ConnectionCounters counters;
};

class Connection {
 public:
  // Destroying a connection closes it at once without any further callback, frees what it can and
  // lets the wire finish with the rest. Not from inside one of its callbacks.
  virtual ~Connection() = default;

  // Memory that this connection sends without a copy. Any thread; the pool may outlive the
  // connection.
  virtual const std::shared_ptr<BufferPool>& pool() const = 0;
  // Begins to deliver. Once; `receiver` stays until OnClosed or destruction. Nothing is delivered
  // before the loop's next turn.
  virtual void Start(Receiver& receiver) = 0;
  // Queues a message (head <= kMaxHeadBytes). `done` runs exactly once, never from inside Send; or
  // 0 is returned: the message has left already, OK and sent, and `done` never runs. A full queue
  // is RESOURCE_EXHAUSTED and unsent; a closed connection is UNAVAILABLE and unsent; an oversize
  // head is unsent, too. A payload that the peer refuses or abandons ends its Send OK and sent:
  // what became of it is the receiver's to tell. Messages queued in one turn of the loop leave by
  // its end, together or all but the first. May be called before Start. Both arguments are moved
  // from.
  virtual Ticket Send(Message&& message, SendDone&& done) = 0;
  // Takes back what still waits: `done` follows with CANCELLED within a turn or two, unsent with
  // the message when no byte left, else sent (a payload in progress stops soon and the receiver
  // drops it). A no-op when done ran or the ticket is unknown.
  virtual void Withdraw(Ticket ticket) = 0;
  // Stops receiving an admitted payload that is still on its way: OnAbandoned(status) follows. A
  // no-op when OnMessage was delivered or the ticket is unknown.
  virtual void Abandon(Ticket ticket, absl::Status status) = 0;
  // Idempotent. What was sent completely is flushed as far as the wire takes it at once; every
  // pending `done`, with a status that is not OK, and then OnClosed(status) follow in a later turn,
  // and nothing else does.
  virtual void Close(absl::Status status) = 0;
  // Any thread, while the connection is not being destroyed.
  virtual ConnectionInfo info() const = 0;

  // What a listener with other paths leaves with a connection before its acceptor gets it; none:
  // there are no others.
  void SetPathHost(std::shared_ptr<PathHost> host) { path_host_ = std::move(host); }
  const std::shared_ptr<PathHost>& path_host() const { return path_host_; }

 private:
  std::shared_ptr<PathHost> path_host_;
};

// Limits that a transport enforces itself, below the session's own.
struct TransportLimits {
  // Of messages that wait to be sent: the memory that they hold (Message::held_bytes), or their
  // length where nothing but this process can make them wait. One larger message may wait alone,
  // and a transport may keep room for small messages beside large ones.
  size_t max_queued_bytes = size_t{256} << 20;
  size_t max_queued_messages = size_t{1} << 16;
  size_t max_transfers = 1024;  // large payloads on their way at once, each direction
  // Of large payloads that the peer announced and that are neither whole nor given up: a message
  // beyond it is given up with RESOURCE_EXHAUSTED. One larger message may come alone. The largest
  // message that MessageLimits takes by default; an honest sender has max_queued_bytes under way.
  uint64_t max_announced_bytes = uint64_t{2} << 30;
};

class Listener {
 public:
  // Stops listening, as Stop(). Connections accepted before live on.
  virtual ~Listener() = default;
  // The address that a client can dial, with the port that was really bound. Any thread.
  virtual Endpoint address() const = 0;
  // No connection is accepted after it returned. Any thread that is not a driver of the listener's
  // loops, or the driver itself; a driver does not wait for an acceptor that runs on another loop.
  // Idempotent.
  virtual void Stop() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  using ConnectDone = absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<Connection>>)>;
  // Connects on `loop` (its driver calls). `done` runs exactly once on the loop, never inside
  // Connect, at `deadline` at the latest: UNAVAILABLE (refused, unreachable, does not resolve;
  // names the address and the cause), DEADLINE_EXCEEDED (a deadline that has passed included),
  // INVALID_ARGUMENT. The handle that is returned cancels when destroyed: `done` is then dropped
  // without being run. It may be destroyed inside `done`.
  class PendingConnect {
   public:
    virtual ~PendingConnect() = default;
  };
  virtual std::unique_ptr<PendingConnect> Connect(EventLoop& loop, const Endpoint& endpoint,
                                                  TimePoint deadline, ConnectDone done) = 0;

  // Takes a new connection over, on the loop where it will live, from inside a turn. May be called
  // from several loops at once.
  using Acceptor = std::function<void(EventLoop& loop, std::unique_ptr<Connection> connection)>;
  // Listens and spreads connections over `loops` (not empty; they outlive the listener) in turn.
  // Any thread. UNAVAILABLE or INVALID_ARGUMENT names the address and the cause (in use, not a
  // local address, …).
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint,
                                                           std::vector<EventLoop*> loops,
                                                           Acceptor acceptor) = 0;
  // For one channel that connects by this transport: how it finds better paths. nullptr: there are
  // none. Any thread.
  virtual std::unique_ptr<PathSelector> MakePathSelector() { return nullptr; }
  // The pools that its connections share, for whoever looks after memory. Any thread.
  virtual std::vector<std::shared_ptr<BufferPool>> pools() const { return {}; }
};

}  // namespace farcall

#endif  // FARCALL_RPC_TRANSPORT_H_
