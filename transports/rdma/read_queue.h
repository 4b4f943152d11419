// ReadQueue: which RDMA READ is posted next. Pure.
//
// A device has a few READs out at once (the smaller of its own initiator depth and what the peer's
// responder has resources for), each of at most a chunk; the rest waits here. Small payloads go
// first, in their order, for small messages are never held up by large ones. Large ones begin one
// after the other: MayBegin says when, so that memory is not taken for payloads whose bytes would
// only come later. What is larger than the first turn then takes turns, a chunk each; those and the
// one that begins have every other READ.
//
// Not thread-safe: it belongs to the connection's driver.

#ifndef FARCALL_TRANSPORTS_RDMA_READ_QUEUE_H_
#define FARCALL_TRANSPORTS_RDMA_READ_QUEUE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "farcall/transports/rdma/limits.h"

namespace farcall::rdma {

// One row of bytes to read: of the peer's memory into this side's, which both stay as they are
// until the transfer's last READ completed.
struct ReadSegment {
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  std::byte* local = nullptr;
  uint64_t local_region = 0;  // BufferSlot::region of `local`
  uint64_t bytes = 0;
};

// Body and attachment; one of them may have no bytes.
using ReadSegments = std::array<ReadSegment, 2>;

class ReadQueue {
 public:
  // Both at least 1.
  explicit ReadQueue(uint32_t depth, uint32_t chunk_bytes = kDefaultChunk)
      : depth_(depth),
        chunk_bytes_(chunk_bytes),
        large_depth_(std::min(depth, std::max<uint32_t>(2, kReadAhead / chunk_bytes))) {}

  // Whether READs of a large payload that is added now would be posted before those of one that is
  // added later. Until then it is best not added.
  bool MayBegin() const { return beginning_.empty(); }

  // Queues all bytes of `transfer`, which has some and is not here yet.
  void Add(uint32_t transfer, const ReadSegments& segments);

  // The READ to post now; it counts as out. False: none waits, or `depth` are out.
  struct Read {
    uint32_t transfer = 0;
    ReadSegment segment;  // bytes: 1 to chunk_bytes
  };
  bool Next(Read& read);

  enum class Progress : uint8_t {
    kMore,     // READs of the transfer are out or wait
    kArrived,  // that was the last: all its bytes are here
    kDrained,  // likewise of one that was stopped
  };
  // A READ of `transfer` completed, in success or, after an error, as flushed.
  Progress Completed(uint32_t transfer);

  // Posts no more of `transfer`. True: none of it is out, and it is forgotten; otherwise Completed
  // says kDrained in the end. Precondition: it is here, not stopped.
  bool Stop(uint32_t transfer);

  uint32_t out() const { return out_; }
  bool empty() const { return by_id_.empty(); }

 private:
  struct Transfer {
    uint32_t id = 0;
    ReadSegments left;    // not posted yet
    uint64_t posted = 0;  // bytes
    uint32_t out = 0;
    bool small = false;
    bool stopped = false;

    bool all_posted() const { return left[0].bytes == 0 && left[1].bytes == 0; }
  };
  using List = std::list<Transfer>;

  List& ListOf(const Transfer& transfer);
  List* NextList();

  const uint32_t depth_;
  const uint32_t chunk_bytes_;
  const uint32_t large_depth_;
  uint32_t out_ = 0;
  uint32_t large_out_ = 0;  // of them, of large payloads
  // With bytes to post; the front is next.
  List small_;
  List beginning_;                   // large ones in their first turn
  List large_;                       // those that take turns
  bool beginning_had_last_ = false;  // READ of a large one: large_ has the next
  List posted_;                      // with READs out and nothing to post
  absl::flat_hash_map<uint32_t, List::iterator> by_id_;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_READ_QUEUE_H_
