#include "farcall/transports/rdma/receive_buffers.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace farcall::rdma {

absl::StatusOr<ReceiveBuffers::Owner> ReceiveBuffers::Create(
    std::shared_ptr<ProtectionDomain> domain, std::shared_ptr<Budget> budget, Options options) {
  const size_t bytes = (size_t{options.posted} + options.spares) * options.bytes;
  if (!budget->Take(bytes)) return budget->Exhausted(bytes);
  absl::StatusOr<std::unique_ptr<MemoryRegion>> region =
      domain->Allocate(bytes, {.local_write = true});
  if (!region.ok()) {
    budget->Give(bytes);
    return region.status();
  }
  return Owner(
      new ReceiveBuffers(std::move(domain), std::move(budget), *std::move(region), options));
}

ReceiveBuffers::ReceiveBuffers(std::shared_ptr<ProtectionDomain> domain,
                               std::shared_ptr<Budget> budget, std::unique_ptr<MemoryRegion> region,
                               Options options)
    : domain_(std::move(domain)),
      budget_(std::move(budget)),
      region_(std::move(region)),
      options_(options),
      keep_(std::max(options.spares / 4, uint32_t{1})),
      base_(region_->memory().data()),
      lent_(size_t{options.posted} + options.spares) {
  spares_.reserve(lent_.size());
  for (uint32_t index = 0; index < lent_.size(); ++index) {
    spares_.push_back(index);
    for (LentPart& part : lent_[index].parts) {
      part.domain = identity();
      part.region = RegionName(*region_);
      part.release = &Release;
      part.owner = this;
      part.index = index;
    }
  }
}

ReceiveBuffers::~ReceiveBuffers() { budget_->Give(region_->memory().size()); }

uint32_t ReceiveBuffers::Take() {
  if (spares_.size() <= keep_) Reclaim();
  assert(!spares_.empty());
  const uint32_t index = spares_.back();
  spares_.pop_back();
  return index;
}

bool ReceiveBuffers::may_lend() {
  if (spares_.size() <= keep_) Reclaim();
  return spares_.size() > keep_;
}

Buffer ReceiveBuffers::LendPart(uint32_t index, size_t which, Part part) {
  LentPart& slot = lent_[index].parts[which];
  slot.base = base_ + size_t{index} * options_.bytes + part.at;
  slot.capacity = part.size;
  return Buffer(&slot, part.size);
}

void ReceiveBuffers::Lend(uint32_t index, Part body, Part attachment, Buffer& body_out,
                          Buffer& attachment_out) {
  const uint32_t parts = (body.size != 0 ? 1 : 0) + (attachment.size != 0 ? 1 : 0);
  if (parts == 0) return Return(index);
  lent_[index].out.store(parts, std::memory_order_relaxed);
  ++lent_out_;
  if (body.size != 0) body_out = LendPart(index, 0, body);
  if (attachment.size != 0) attachment_out = LendPart(index, 1, attachment);
}

// Any thread.
void ReceiveBuffers::Release(BufferSlot* slot) {
  const auto& part = *static_cast<LentPart*>(slot);
  ReceiveBuffers& buffers = *part.owner;
  Lent& lent = buffers.lent_[part.index];
  // A count of one is this part's own: nobody else changes it.
  if (lent.out.load(std::memory_order_acquire) != 1 &&
      lent.out.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  lent.next = buffers.came_back_.load(std::memory_order_relaxed);
  while (lent.next != kEnded && !buffers.came_back_.compare_exchange_weak(
                                    lent.next, part.index + 1, std::memory_order_acq_rel)) {
  }
  if (lent.next == kEnded && buffers.left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete &buffers;
  }
}

void ReceiveBuffers::Reclaim() {
  if (came_back_.load(std::memory_order_relaxed) == kNone) return;
  TakeBack(came_back_.exchange(kNone, std::memory_order_acquire));
}

void ReceiveBuffers::TakeBack(uint32_t first) {
  for (uint32_t name = first; name != kNone; name = lent_[name - 1].next) {
    spares_.push_back(name - 1);
    --lent_out_;
  }
}

void ReceiveBuffers::End() {
  TakeBack(came_back_.exchange(kEnded, std::memory_order_acq_rel));
  const int64_t out = lent_out_;
  if (left_.fetch_add(out, std::memory_order_acq_rel) + out == 0) delete this;
}

}  // namespace farcall::rdma
