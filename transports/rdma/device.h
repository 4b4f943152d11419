// The device boundary: what an RDMA adapter, real or in software, gives to the protocol engine. A
// mirror of verbs and of rdma_cm, cut down to what InfiniBand, RoCE and iWARP adapters all do; what
// some of them lack is asked through Capabilities, never by name.
//
// Objects: a Device makes protection domains, completion queues and event channels. A protection
// domain holds memory regions and windows. A ConnectionId is one end of a connection to be; the
// queue pair is made on it once it is resolved (active side) or with the request (passive side),
// so that receives are posted before the peer can send. Every object keeps alive what it was made
// from: any order of destruction is safe, except that memory named by an unfinished request must
// outlive that request's completion, or its queue pair.
//
// Threads: a completion queue, its queue pairs, their connection ids and the event channel of these
// belong to one thread at a time. Device, ProtectionDomain, regions and windows: any thread.
//
// Errors of these functions are for requests that were never taken; whatever happens to a request
// that was taken is said by its completion.

#ifndef FARCALL_TRANSPORTS_RDMA_DEVICE_H_
#define FARCALL_TRANSPORTS_RDMA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farcall::rdma {

struct Capabilities {
  std::string name;  // for people and logs only
  uint32_t max_send_depth = 0, max_receive_depth = 0, max_completion_depth = 0;
  uint32_t max_inline = 0;               // bytes; a queue pair may be granted less
  uint32_t max_send_bytes = 0;           // of one SEND
  uint64_t max_read_bytes = 0;           // of one READ
  uint32_t max_send_sges = 0;            // of a SEND; at least 2
  uint32_t max_read_sges = 0;            // of a READ's sink; 1 on iWARP
  uint32_t max_initiator_depth = 0;      // READs on their way from one queue pair
  uint32_t max_responder_resources = 0;  // READs served by one queue pair at once
  uint32_t max_private_data = 0;         // bytes that connect, accept and reject can carry
  bool windows = false;                  // type-2 memory windows: BIND and LOCAL_INV
  // The sink of a READ needs Access::remote_write (iWARP).
  bool read_sink_needs_remote_write = false;
  // Register takes Access::remote_read for memory of any origin. Without it only Allocate does, and
  // a peer is bounded by the mapping: only a protection domain a connection keeps peers apart.
  bool remote_read_anywhere = false;
  // The peer's device acknowledges what it took: the completion of a SEND says that the peer has
  // it, a SEND that finds no receive waits as rnr_retry says, and what fails over there fails here
  // with its kRemote… status. Without (iWARP) a SEND completes when it is on its way, and whatever
  // fails over there may be kFlushed here, or nothing but the end of the connection.
  bool acknowledges = true;
};

// Local read is always given.
struct Access {
  bool local_write = false;   // receives, sinks of READs
  bool remote_read = false;   // the peers of this protection domain may READ it by its rkey
  bool remote_write = false;  // see read_sink_needs_remote_write
  bool bind = false;          // windows may be bound to it
};

// Deregisters when destroyed; keys are refused from then on, also by READs that are half done.
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  std::span<std::byte> memory() const { return memory_; }
  uint32_t lkey() const { return lkey_; }
  uint32_t rkey() const { return rkey_; }  // 0: a peer may not read it

 protected:
  MemoryRegion(std::span<std::byte> memory, uint32_t lkey, uint32_t rkey)
      : memory_(memory), lkey_(lkey), rkey_(rkey) {}

 private:
  const std::span<std::byte> memory_;
  const uint32_t lkey_, rkey_;
};

// A type-2 memory window: a remote key for a part of a region, bound and invalidated by requests of
// one queue pair. Its users are on that queue pair's thread. One that is bound is destroyed before
// the queue pair: adapters refuse, or wait, to destroy that.
class MemoryWindow {
 public:
  virtual ~MemoryWindow() = default;
  // The key that the next BIND gives, so that the message that offers it can leave in one list with
  // the BIND. Changes when a BIND is posted.
  virtual uint32_t next_rkey() const = 0;
};

class ProtectionDomain {
 public:
  virtual ~ProtectionDomain() = default;
  // Memory that the device provides, page-aligned, zeroed, freed with the region.
  // RESOURCE_EXHAUSTED names the size, the limit and the remedy.
  virtual absl::StatusOr<std::unique_ptr<MemoryRegion>> Allocate(size_t bytes, Access access) = 0;
  // Memory of the caller's, which outlives the region. UNIMPLEMENTED: see remote_read_anywhere.
  virtual absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory,
                                                                 Access access) = 0;
  // UNIMPLEMENTED without Capabilities::windows.
  virtual absl::StatusOr<std::unique_ptr<MemoryWindow>> AllocateWindow() = 0;
};

enum class Opcode : uint8_t { kSend, kRead, kBind, kLocalInvalidate, kReceive };

enum class CompletionStatus : uint8_t {
  kSuccess,
  kLocalLengthError,      // LOC_LEN_ERR: longer than the receive, or than the device can send
  kLocalQueuePairError,   // LOC_QP_OP_ERR: the request makes no sense here
  kLocalProtectionError,  // LOC_PROT_ERR: an lkey, its bounds or its access
  kFlushed,               // WR_FLUSH_ERR: not done; the queue pair was in, or fell into, ERR
  kBindError,             // MW_BIND_ERR: a BIND or LOCAL_INV that the rules forbid
  kBadResponse,           // BAD_RESP_ERR: the peer's device broke the protocol
  kRemoteInvalidRequest,  // REM_INV_REQ_ERR: longer than the peer's receive
  kRemoteAccessError,     // REM_ACCESS_ERR: an rkey, its bounds or its access
  kRemoteOperationError,  // REM_OP_ERR: the peer's device failed
  kRetryExceeded,         // RETRY_EXC_ERR: the peer does not answer
  kReceiverNotReady,      // RNR_RETRY_EXC_ERR: the peer had no receive posted
  kFatal,                 // FATAL_ERR, GENERAL_ERR: the device
};
std::string_view ToString(Opcode opcode);
std::string_view ToString(CompletionStatus status);  // in the words of verbs

// In error only wr_id, status, queue_pair and vendor_error mean something.
struct Completion {
  uint64_t wr_id = 0;
  CompletionStatus status = CompletionStatus::kSuccess;
  Opcode opcode = Opcode::kSend;
  uint32_t bytes = 0;  // of a receive: what arrived
  uint32_t queue_pair = 0;
  uint32_t vendor_error = 0;
};

// Completions of one queue pair's sends come in the order of posting, and so do those of its
// receives. An unsignaled send completes only when it fails; its slot of the send queue is free
// when the completion of a later send has been polled.
class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  // Takes up to completions.size() of what has completed; the device may do its own work in here.
  virtual size_t Poll(std::span<Completion> completions) = 0;
  // Asks for one notice: fd() becomes readable with the next completion. False: there is something
  // to Poll already, or work of the device that needs Poll. To sleep: Drain, Arm, Poll until empty,
  // and only then wait. Armed again before the notice came, one notice comes.
  virtual bool Arm() = 0;
  // Readable: a notice (or a spurious one). Owned by the queue; level-triggered until Drain.
  virtual int fd() const = 0;
  // Takes the notices. Does not block.
  virtual void Drain() = 0;
  // Not OK when more completed than the queue can hold: it is dead from then on, and its queue
  // pairs are in ERR.
  virtual absl::Status status() const = 0;
};

struct Sge {
  const std::byte* address = nullptr;  // written to by READs and receives
  uint32_t length = 0;
  uint32_t lkey = 0;
};
inline constexpr size_t kMaxSges = 2;

struct SendRequest {
  uint64_t wr_id = 0;
  Opcode opcode = Opcode::kSend;
  bool signaled = true;
  // SEND: the bytes are copied before PostSend returns, and lkeys do not matter. At most the queue
  // pair's max_inline.
  bool inlined = false;
  uint8_t sge_count = 0;
  Sge sges[kMaxSges];           // SEND: gathered; READ: the sink
  uint64_t remote_address = 0;  // READ
  uint32_t rkey = 0;            // READ; LOCAL_INV: the key that ends
  // BIND: `window` covers [bind_address, +bind_length) of `region`, for remote reads.
  MemoryWindow* window = nullptr;
  const MemoryRegion* region = nullptr;
  uint64_t bind_address = 0;
  uint64_t bind_length = 0;
};

struct ReceiveRequest {
  uint64_t wr_id = 0;
  Sge sge;
};

enum class QueuePairState : uint8_t { kReset, kInit, kReadyToReceive, kReadyToSend, kError };

// Reliable connected. In INIT when made; connecting moves it on; an error, a disconnect or a
// departed peer moves it to ERR, where everything outstanding, and everything posted later,
// completes with kFlushed, once each.
class QueuePair {
 public:
  virtual ~QueuePair() = default;  // its completions vanish from their queues

  // Takes a list and rings once. Requests start in order and complete in order, but a SEND may
  // reach the peer before an earlier READ has taken its bytes: await the READ before telling
  // anybody. Not OK: the first `posted` requests were taken and no others. RESOURCE_EXHAUSTED: the
  // send queue is full; FAILED_PRECONDITION: not yet ready to send; INVALID_ARGUMENT: more
  // segments, inline bytes or length than granted, or a BIND to a region of another domain.
  virtual absl::Status PostSend(std::span<const SendRequest> requests, size_t& posted) = 0;
  // The same for receives, from INIT on. A message takes one, and must fit.
  virtual absl::Status PostReceive(std::span<const ReceiveRequest> requests, size_t& posted) = 0;
  // To ERR. Idempotent.
  virtual void Fail() = 0;

  virtual QueuePairState state() const = 0;
  virtual uint32_t number() const = 0;
  virtual uint32_t max_inline() const = 0;  // as granted
};

struct QueuePairOptions {
  CompletionQueue* send_queue = nullptr;  // may be the same; of the same device
  CompletionQueue* receive_queue = nullptr;
  uint32_t send_depth = 128;
  uint32_t receive_depth = 64;
  uint32_t max_inline = 0;  // asked for
};

struct ConnectionParameters {
  std::span<const std::byte> private_data = {};
  uint32_t responder_resources = 16;  // READs of the peer that this side serves at once
  uint32_t initiator_depth = 16;      // READs that this side wants to have on their way
  // How often the peer's device may find no receive here before its SEND fails; 7: without end.
  uint8_t rnr_retry = 0;
};

// One end of a connection. Destroying it ends the connection at once; the peer is told.
class ConnectionId {
 public:
  virtual ~ConnectionId() = default;
  // The device that the connection goes through, from kResolved or kConnectRequest on: on a machine
  // with several adapters the route says which. Null: the one that was asked.
  virtual std::shared_ptr<class Device> device() const { return nullptr; }
  // On a resolved id or a request, once. `domain` and the queues are of the id's device.
  virtual absl::StatusOr<std::unique_ptr<QueuePair>> CreateQueuePair(
      ProtectionDomain& domain, const QueuePairOptions& options) = 0;
  // Active side: kEstablished, kRejected or kUnreachable follows, or nothing for long: the caller
  // has the timer, and destroys the id.
  virtual absl::Status Connect(const ConnectionParameters& parameters) = 0;
  // Passive side: kEstablished follows, or kDisconnected. The active side sends first. CANCELLED:
  // it has gone, as clients do.
  virtual absl::Status Accept(const ConnectionParameters& parameters) = 0;
  virtual absl::Status Reject(std::span<const std::byte> private_data) = 0;
  // Ends an established connection: both queue pairs go to ERR, both sides see kDisconnected.
  virtual void Disconnect() = 0;
  // Where its coming events go, if not to the channel that it was made on: before Connect or
  // Accept. Called by the thread of the new channel, which has the id from then on.
  virtual absl::Status MoveTo(class EventChannel& channel) = 0;
  virtual std::string peer() const = 0;  // for people
};

class AddressListener {
 public:
  virtual ~AddressListener() = default;  // stops listening; requests taken before live on
  virtual std::string address() const = 0;
};

struct ConnectionEvent {
  enum class Kind : uint8_t {
    kResolved,        // the queue pair can be made now
    kConnectRequest,  // `request` is the passive end
    kEstablished,
    kRejected,      // the peer's application refused; `private_data` may say why
    kUnreachable,   // nobody there, or no way there: `status`
    kDisconnected,  // the peer left or died, or Disconnect; `status` says which. Once
    kDeviceRemoved,
  };
  Kind kind = Kind::kResolved;
  ConnectionId* id = nullptr;  // whose event; null for kConnectRequest
  AddressListener* listener = nullptr;
  std::unique_ptr<ConnectionId> request;
  // kConnectRequest, kEstablished (active side), kRejected. Bytes of the peer; zeros may follow.
  std::vector<std::byte> private_data;
  // kConnectRequest, kEstablished: READs that the peer wants to have on their way to here, and
  // READs that it can serve.
  uint32_t responder_resources = 0, initiator_depth = 0;
  absl::Status status;
};

class EventChannel {
 public:
  virtual ~EventChannel() = default;
  virtual int fd() const = 0;  // readable: call Next until it returns nothing
  // Does not block. No event of an id or listener comes after its destruction.
  virtual std::optional<ConnectionEvent> Next() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const Capabilities& capabilities() const = 0;
  virtual absl::StatusOr<std::unique_ptr<ProtectionDomain>> CreateProtectionDomain() = 0;
  // `depth` is at least the sum of the depths of all queues that complete here: unsignaled sends
  // flush with completions, too.
  virtual absl::StatusOr<std::unique_ptr<CompletionQueue>> CreateCompletionQueue(
      uint32_t depth) = 0;
  virtual absl::StatusOr<std::unique_ptr<EventChannel>> CreateEventChannel() = 0;
  // `address` in the device's own terms ("10.0.0.7:7000", a name). UNAVAILABLE or INVALID_ARGUMENT
  // names it and the cause.
  virtual absl::StatusOr<std::unique_ptr<AddressListener>> Listen(EventChannel& channel,
                                                                  std::string_view address) = 0;
  // kResolved or kUnreachable follows.
  virtual absl::StatusOr<std::unique_ptr<ConnectionId>> Resolve(EventChannel& channel,
                                                                std::string_view address) = 0;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_DEVICE_H_
