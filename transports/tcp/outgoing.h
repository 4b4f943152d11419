// One message on its way out of a connection, and the store of such records that a loop reuses, so
// that sending allocates nothing in steady state.

#ifndef FARCALL_TRANSPORTS_TCP_OUTGOING_H_
#define FARCALL_TRANSPORTS_TCP_OUTGOING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "farcall/rpc/message.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/tcp/limits.h"
#include "farcall/transports/tcp/prefix.h"

namespace farcall::tcp {

struct Outgoing {
  // In whatever list it is: transfers, finished or spare (which has no `previous`).
  Outgoing* next = nullptr;
  Outgoing* previous = nullptr;
  Ticket ticket = 0;
  Message message;
  SendDone done;

  // The prefix with a small head right behind it: one region for the kernel.
  std::array<std::byte, kPrefixBytes + Head::kInlineBytes> front;
  size_t front_bytes = 0;

  bool large = false;         // BEGIN and chunks instead of MESSAGE
  bool withdrawn = false;     // done ran already; ends with ABORT at the next record boundary
  uint32_t transfer = 0;      // its number, once BEGIN was planned
  uint64_t payload_sent = 0;  // in whole chunks
  uint64_t turn_bytes = 0;    // of these, in the turn that it has now
  PrefixBytes chunk_prefix;   // of the chunk that was planned last
  uint64_t chunk_bytes = 0;

  absl::Status status;  // when finished
  bool sent = false;
};

// Belongs to one loop: its driver only.
class OutgoingStore {
 public:
  OutgoingStore() = default;
  ~OutgoingStore();
  OutgoingStore(const OutgoingStore&) = delete;
  OutgoingStore& operator=(const OutgoingStore&) = delete;

  Outgoing* Take();
  void Return(Outgoing* outgoing);

 private:
  Outgoing* spare_ = nullptr;
  size_t spares_ = 0;
};

// A queue threaded through Outgoing::next and ::previous.
class OutgoingList {
 public:
  bool empty() const { return front_ == nullptr; }
  Outgoing* front() const { return front_; }
  void PushBack(Outgoing* outgoing);
  Outgoing* PopFront();
  // `outgoing` is in the list.
  void Remove(Outgoing* outgoing);

 private:
  Outgoing* front_ = nullptr;
  Outgoing* back_ = nullptr;
};

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_OUTGOING_H_
