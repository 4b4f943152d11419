// ReceiveBuffers: the memory that a connection's SENDs arrive in. Some buffers are posted, the
// others are spares: a receive is posted again with a spare before anything is done with what
// arrived, and its buffer is a spare again when nobody reads in it. A handler reads where the bytes
// arrived, as long as there are spares enough.
//
// The owner's thread, but for the release of what was lent, which any thread does without a lock.
// The memory outlives the owner until the last of it came back.

#ifndef FARCALL_TRANSPORTS_RDMA_RECEIVE_BUFFERS_H_
#define FARCALL_TRANSPORTS_RDMA_RECEIVE_BUFFERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/rpc/buffer.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/device_memory.h"

namespace farcall::rdma {

class ReceiveBuffers {
 public:
  struct Options {
    uint32_t posted = 0;
    uint32_t spares = 0;  // at least 1
    uint32_t bytes = 0;   // of each, a multiple of kBufferAlignment
  };
  struct Close {
    void operator()(ReceiveBuffers* buffers) const { buffers->End(); }
  };
  using Owner = std::unique_ptr<ReceiveBuffers, Close>;

  // Takes its memory out of `budget`, until the last of it came back.
  static absl::StatusOr<Owner> Create(std::shared_ptr<ProtectionDomain> domain,
                                      std::shared_ptr<Budget> budget, Options options);

  // A spare one, to be posted. There always is one: see may_lend.
  uint32_t Take();
  // Of one that was posted and is read: a spare again.
  void Return(uint32_t index) { spares_.push_back(index); }
  ReceiveRequest Request(uint32_t index, uint64_t wr_id) const {
    return {wr_id, {base_ + size_t{index} * options_.bytes, options_.bytes, region_->lkey()}};
  }
  std::span<const std::byte> Received(uint32_t index, uint32_t bytes) const {
    return {base_ + size_t{index} * options_.bytes, bytes};
  }

  // Some buffer may be lent; otherwise its bytes are to be copied out.
  bool may_lend();
  // Instead of Return: hands out [at, at + size) of a buffer, in one part or two (size 0: none).
  struct Part {
    size_t at = 0;
    size_t size = 0;
  };
  void Lend(uint32_t index, Part body, Part attachment, Buffer& body_out, Buffer& attachment_out);
  // The same of one part, which is not empty.
  Buffer Lend(uint32_t index, Part part) {
    lent_[index].out.store(1, std::memory_order_relaxed);
    ++lent_out_;
    return LendPart(index, 0, part);
  }

  // Who these buffers are, as BufferSlot::domain says it.
  const void* identity() const { return this; }

 private:
  struct LentPart : BufferSlot {
    ReceiveBuffers* owner = nullptr;
    uint32_t index = 0;
  };
  struct Lent {
    std::array<LentPart, 2> parts;
    std::atomic<uint32_t> out{0};  // parts that are not released
    uint32_t next = 0;             // in the list of those that came back
  };
  // No buffer, in that list: it names them from 1. And: the owner is gone, nothing comes back.
  static constexpr uint32_t kNone = 0, kEnded = UINT32_MAX;

  ReceiveBuffers(std::shared_ptr<ProtectionDomain> domain, std::shared_ptr<Budget> budget,
                 std::unique_ptr<MemoryRegion> region, Options options);
  ~ReceiveBuffers();

  static void Release(BufferSlot* slot);
  Buffer LendPart(uint32_t index, size_t which, Part part);
  void Reclaim();
  void TakeBack(uint32_t first);
  void End();

  // Constant after construction.
  const std::shared_ptr<ProtectionDomain> domain_;
  const std::shared_ptr<Budget> budget_;
  const std::unique_ptr<MemoryRegion> region_;
  const Options options_;
  const uint32_t keep_;  // spares that are not lent
  std::byte* const base_;
  std::vector<Lent> lent_;

  // The owner's thread.
  std::vector<uint32_t> spares_;
  int64_t lent_out_ = 0;  // buffers that are lent and were not taken back

  alignas(64) std::atomic<uint32_t> came_back_{kNone};  // the last of a list
  // After kEnded: buffers that are lent, less those that came back since. Below 0 while the owner
  // has not said yet how many are lent. Who makes it 0 is the last.
  std::atomic<int64_t> left_{0};
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_RECEIVE_BUFFERS_H_
