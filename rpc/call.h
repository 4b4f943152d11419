// One call as its caller's side sees it: options in, outcome out, and the states between.
//
//   from       event                           to         why
//   new        started                         waiting    no connection, or the peer is full
//   waiting    a connection takes it           sending    it has an id; the transport owns it
//   waiting    deadline, cancel, nobody there  done       not sent
//   sending    the message left                awaiting
//   sending    the message came back           waiting    the connection ended: try the next
//   sending    deadline or cancel              withdrawn  the transport is asked for the message
//   withdrawn  the message came back           done       not sent
//   withdrawn  the message left                done       outcome unknown; CANCEL follows
//   awaiting   deadline or cancel              done       outcome unknown; CANCEL follows
//   any sent   reply                           done       answered; not run, when it is a refusal
//   any sent   the connection ended            waiting    idempotent, small, and not the last try
//   any sent   the connection ended            done       outcome unknown
//
// Once sent, a call that waits again ends as 'outcome unknown' where it would have been 'not sent'.

#ifndef FARCALL_RPC_CALL_H_
#define FARCALL_RPC_CALL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/message.h"
#include "farcall/rpc/metadata.h"
#include "farcall/rpc/method.h"
#include "farcall/rpc/outcome.h"
#include "farcall/rpc/timer_wheel.h"
#include "farcall/rpc/transport.h"

namespace farcall {

class Channel;
class ChannelCore;
class ClientSession;
class MessageBuilder;
struct MethodTally;

// When a call passed its stages, by the machine's steady clock; zero where it did not, or where
// nobody asked.
struct CallStages {
  TimePoint started{};   // the caller's method was entered
  TimePoint handed{};    // the message was given to the transport
  TimePoint left{};      // the transport said that it left
  TimePoint answered{};  // the reply was whole
};

// What can be told about a call beside its result. Filled before the call completes.
struct CallInfo {
  bool record_stages = false;  // set by the caller: costs four readings of the clock
  CallStages stages = {};
  Metadata reply_metadata = {};  // of replies and of error replies
  // Whom it was sent to, "tcp://10.0.0.7:7000"; empty when it was not. A status that the server's
  // handler returned is passed on as it was said, without the server's name.
  std::string peer = {};
  Outcome outcome = Outcome::kNotSent;
};

struct CallOptions {
  // From now until the answer; the server is told. 0: the channel's default. Every call has one.
  Duration timeout = Duration(0);
  // While the server cannot be reached, wait for it until the deadline instead of failing at once.
  // An address that no attempt can reach (INVALID_ARGUMENT) fails all the same.
  bool wait_for_ready = false;
  Metadata metadata = {};
  // Must outlive the call; not shared by calls under way at the same time.
  CallInfo* info = nullptr;
  // A reply's attachment that fits is received into this, from the first byte of its slot, and
  // arrives in the reply's Msg::attachment(); one that does not comes in the transport's memory, as
  // without it. Memory that was not needed stays here. When the call ends while the attachment is
  // being received, the memory is the transport's until it came to rest, and is then released
  // (rpc/user_memory.h tells when). Otherwise as `info`.
  Buffer* attachment_into = nullptr;
};

// A request on its way from the stub to the loop: built, with its metadata in the head, and timed.
struct PreparedCall {
  absl::Status status;  // not OK: it cannot be sent, and why
  const MethodInfo* method = nullptr;
  Message message;             // head with fields but without a header yet
  uint64_t request_bytes = 0;  // of message, also when it is gone
  CallInfo* info = nullptr;
  Buffer* attachment_into = nullptr;
  TimePoint started{};  // when the caller's method was entered
  TimePoint deadline{};
  bool wait_for_ready = false;
};

// Takes what `builder` built. Any thread.
PreparedCall PrepareCall(const Channel& channel, const MethodInfo& method, MessageBuilder& builder,
                         const CallOptions& options);

// The base of a call under way. Whoever starts it owns it and keeps it until OnDone, which runs
// exactly once, on the driver of the channel's loop, never from inside Start. All members belong to
// the driver once started.
class ClientCall : private Timer {
 public:
  // `cancel_key` names the call to ChannelCore::RequestCancel; 0: it cannot be cancelled.
  ClientCall(uint64_t cancel_key, PreparedCall&& prepared)
      : request_(std::move(prepared)), cancel_key_(cancel_key) {}
  // Of what PrepareCall says of these, which is made in place.
  ClientCall(uint64_t cancel_key, const Channel& channel, const MethodInfo& method,
             MessageBuilder& builder, const CallOptions& options)
      : request_(PrepareCall(channel, method, builder, options)), cancel_key_(cancel_key) {}
  ~ClientCall() override = default;

  const PreparedCall& request() const { return request_; }

 protected:
  // The call is over and out of every table; it may be destroyed. `reply` is meaningful when
  // `status` is OK.
  virtual void OnDone(absl::Status&& status, Message&& reply) = 0;

 private:
  friend class CallTable;
  friend class ChannelCore;
  friend class ClientSession;
  enum class State : uint8_t { kNew, kWaiting, kSending, kWithdrawn, kAwaiting, kDone };

  void OnTimer() override;

  // Set before the start.
  PreparedCall request_;
  const uint64_t cancel_key_ = 0;  // names the call to ChannelCore::RequestCancel; 0: it cannot be

  // While under way.
  State state_ = State::kNew;
  bool keeps_message_ = false;  // which was sent: the call can be made again
  uint8_t repeats_ = 0;         // how often it was sent before, by connections that are gone
  ChannelCore* channel_ = nullptr;
  MethodTally* tally_ = nullptr;      // of its method
  ClientSession* session_ = nullptr;  // null while waiting
  uint64_t id_ = 0;                   // in session_'s table
  Ticket ticket_ = 0;                 // of the request
  Ticket reply_ticket_ = 0;           // of a reply that was announced
  absl::Status cause_;                // why it was withdrawn, or how it will end
  ClientCall* previous_ = nullptr;    // in the channel's queue
  ClientCall* next_ = nullptr;
};

}  // namespace farcall

#endif  // FARCALL_RPC_CALL_H_
