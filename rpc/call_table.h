// CallTable: the calls in flight on one connection, by the id that is on the wire.
//
// An id is a slot's index and its generation, so that a late reply to an ended call never reaches
// the next call in the slot. Belongs to the loop's driver.

#ifndef FARCALL_RPC_CALL_TABLE_H_
#define FARCALL_RPC_CALL_TABLE_H_

#include <cstdint>
#include <vector>

#include "farcall/rpc/call.h"

namespace farcall {

class CallTable {
 public:
  // Puts `call` in and sets its id, never 0.
  void Insert(ClientCall& call) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.call = &call;
    if (++slot.generation == 0) slot.generation = 1;
    call.id_ = (uint64_t{slot.generation} << 32) | index;
    ++size_;
  }

  // nullptr for any id that is not in flight, whatever its bits.
  ClientCall* Find(uint64_t id) const {
    const uint64_t index = id & UINT32_MAX;
    if (index >= slots_.size()) return nullptr;
    const Slot& slot = slots_[static_cast<size_t>(index)];
    return slot.generation == id >> 32 ? slot.call : nullptr;
  }

  void Erase(const ClientCall& call) {
    const auto index = static_cast<uint32_t>(call.id_ & UINT32_MAX);
    slots_[index].call = nullptr;
    free_.push_back(index);
    --size_;
  }

  // Some call for which `wanted(call)` holds; nullptr when there is none. Walks the table.
  template <class Predicate>
  ClientCall* FindIf(Predicate&& wanted) const {
    if (size_ == 0) return nullptr;
    for (const Slot& slot : slots_) {
      if (slot.call != nullptr && wanted(*slot.call)) return slot.call;
    }
    return nullptr;
  }

  // Erases every call and then passes it to `visit`, which puts none in.
  template <class Visitor>
  void Clear(Visitor&& visit) {
    for (size_t index = 0; size_ > 0; ++index) {
      ClientCall* call = slots_[index].call;
      if (call == nullptr) continue;
      Erase(*call);
      visit(*call);
    }
  }

  size_t size() const { return size_; }

 private:
  struct Slot {
    ClientCall* call = nullptr;
    uint32_t generation = 0;
  };
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  size_t size_ = 0;
};

}  // namespace farcall

#endif  // FARCALL_RPC_CALL_TABLE_H_
