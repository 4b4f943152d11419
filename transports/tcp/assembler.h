// Assembler: turns the peer's bytes back into messages. Pure: it says where the next bytes shall go
// and is told how many arrived.
//
// One turn of reading is
//     Attach(scratch); { Want(…); <receive>; Received(n); } …; Detach();
// The read buffer is lent for the turn (a loop has one for all its connections); what is left of a
// record that is cut inside its prefix or head is kept aside by Detach, so that an idle connection
// holds no read buffer.
//
// Memory: a message of at most kMaxInlinePayload has its place when its head is here. A larger
// payload has only a promise of one, and takes memory chunk by chunk as its bytes are announced by
// CHUNK records; a peer that announces much and sends little makes us hold little. When there is no
// memory, or the peer announced more than max_announced_bytes, that message ends with OnAbandoned,
// the rest of it is thrown away, and the connection goes on.
//
// Payloads above kCopyBytes are received where they stay. To that end the assembler asks for no
// more bytes than it knows to be prefix and head while large payloads are about, and for a buffer
// full otherwise.
//
// Not thread-safe: it belongs to the connection's driver.

#ifndef FARCALL_TRANSPORTS_TCP_ASSEMBLER_H_
#define FARCALL_TRANSPORTS_TCP_ASSEMBLER_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "farcall/rpc/buffer.h"
#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/message.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/tcp/limits.h"
#include "farcall/transports/tcp/prefix.h"

namespace farcall::tcp {

// Hears what an Assembler finds. It may call Abandon and Stop from inside.
class AssemblerEvents {
 public:
  virtual ~AssemblerEvents() = default;
  // As Receiver's.
  virtual Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) = 0;
  virtual void OnMessage(Ticket ticket, Message&& message) = 0;
  virtual void OnAbandoned(Ticket ticket, absl::Status status) = 0;
  // The peer shall be told to stop a transfer; it need no longer be told, for the transfer ended.
  virtual void SendAbandon(uint32_t transfer) = 0;
  virtual void DropAbandon(uint32_t transfer) = 0;
  // The peer wants no more of a transfer of ours. Not OK: there is none, a violation.
  virtual absl::Status OnPeerAbandon(uint32_t transfer) = 0;
};

class Assembler {
 public:
  // Both outlive the assembler. `pool` is where messages are received.
  Assembler(AssemblerEvents& events, BufferPool& pool, const TransportLimits& limits = {});

  // Begins a turn with `scratch` (kReadBufferBytes) as the read buffer.
  void Attach(std::span<std::byte> scratch);
  // Ends it.
  void Detach();

  // Where the next bytes go, in order. At least one byte is wanted.
  static constexpr size_t kMaxRegions = 3;
  struct Regions {
    std::array<iovec, kMaxRegions> region;
    size_t count = 0;
    size_t bytes = 0;
  };
  Regions Want();
  // `bytes` arrived in the regions that were wanted last; handles all records that are whole now.
  // Not OK: the peer broke a rule that the status names; nothing more may be received.
  absl::Status Received(size_t bytes);

  // Contract's Abandon. True: the message was under way and is now dropped; the caller says so to
  // the receiver later.
  bool Abandon(Ticket ticket);
  // Drops everything. Received returns as soon as it can.
  void Stop();

  // Where the stream is, for the error when it ends: empty between messages, otherwise like
  // "inside a record's prefix (7 of 24 bytes)".
  std::string Position() const;
  // The preamble has arrived and was right.
  bool greeted() const { return state_ != State::kPreamble; }

  uint64_t messages_received() const { return messages_received_; }
  uint64_t bytes_received() const {
    return bytes_received_;
  }  // heads and payload, delivered or not
  uint64_t payload_bytes_copied() const { return payload_bytes_copied_; }

 private:
  enum class State : uint8_t {
    kPreamble,
    kPrefix,
    kHead,
    kPayload,
  };

  // A payload on its way. The order of bytes is body, then attachment.
  struct Incoming {
    Ticket ticket = 0;
    Message message;
    uint64_t total = 0;
    uint64_t received = 0;
    uint64_t announced = 0;  // its part of announced_
    bool dropped = false;    // refused or abandoned: its bytes are thrown away
  };

  absl::Status Parse(bool& progress);
  absl::Status ParsePreamble();
  absl::Status ParsePrefix();
  absl::Status ParseHead();
  void ParsePayload();
  absl::Status BeginChunk();
  static absl::Status Commit(const Incoming& incoming, uint64_t bytes);
  absl::Status OnAbort();
  void FinishPayload();
  void Deliver(Incoming& incoming);

  absl::Status CheckTransfer(uint32_t transfer);
  Incoming TakeTransfer(uint32_t transfer);
  absl::Status TakePlace(Incoming& incoming, std::span<const std::byte> head, MessageSizes sizes,
                         Buffer attachment);
  absl::Status CheckAnnounced(uint64_t bytes) const;
  void Drop(Incoming& incoming);
  void Forget(Incoming& incoming);
  static std::span<std::byte> Hole(Incoming& incoming, uint64_t ahead, uint64_t limit);
  void Advance(uint64_t bytes);
  size_t WantedInBuffer() const;

  size_t buffered() const { return end_ - begin_; }
  bool bulk() const { return bulk_ || !transfers_.empty(); }

  AssemblerEvents& events_;
  BufferPool& pool_;
  const uint64_t max_announced_bytes_;

  State state_ = State::kPreamble;
  bool stopped_ = false;
  Prefix prefix_;                // kHead, kPayload
  Incoming* current_ = nullptr;  // kPayload: whose bytes come next
  uint64_t current_left_ = 0;    // kPayload: bytes of this record
  Incoming inlined_;             // the payload of a MESSAGE
  absl::flat_hash_map<uint32_t, Incoming> transfers_;
  absl::flat_hash_map<Ticket, uint32_t> transfer_of_;
  uint64_t announced_ = 0;  // payload bytes of transfers that are not whole and not dropped
  uint32_t last_transfer_ = 0;
  Ticket last_ticket_ = 0;

  // The read buffer of this turn and what of it is not yet parsed.
  std::span<std::byte> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::vector<std::byte> parked_;              // the same between turns
  std::array<std::span<std::byte>, 2> holes_;  // what Want gave besides the read buffer

  bool bulk_ = false;           // the last message had a payload above kCopyBytes
  size_t bulk_head_bytes_ = 0;  // and a head of this size

  Tally messages_received_, bytes_received_, payload_bytes_copied_;  // read by any thread
};

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_ASSEMBLER_H_
