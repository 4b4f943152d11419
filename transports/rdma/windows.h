// Windows: which memory windows make a peer's right to read a payload, and the spare ones. A window
// is bound right before its RTS and invalidated after the FIN. On the queue pair's thread.

#ifndef FARCALL_TRANSPORTS_RDMA_WINDOWS_H_
#define FARCALL_TRANSPORTS_RDMA_WINDOWS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/limits.h"

namespace farcall::rdma {

class Windows {
 public:
  // Of a payload that is offered: a part that has none has a null window.
  struct Bound {
    std::unique_ptr<MemoryWindow> window;
    uint32_t rkey = 0;
  };
  using Pair = std::array<Bound, 2>;

  explicit Windows(ProtectionDomain& domain) : domain_(domain) {}

  // So many are spare now, if the device has any left.
  bool Reserve(size_t count) {
    while (spare_.size() < count) {
      if (made_ == kMaxWindows) return false;
      absl::StatusOr<std::unique_ptr<MemoryWindow>> window = domain_.AllocateWindow();
      if (!window.ok()) return false;
      spare_.push_back(*std::move(window));
      ++made_;
    }
    return true;
  }
  bool none_bound() const { return bound_.empty(); }
  std::unique_ptr<MemoryWindow> Take() {
    std::unique_ptr<MemoryWindow> window = std::move(spare_.back());
    spare_.pop_back();
    return window;
  }
  void Keep(uint32_t transfer, Pair pair) { bound_.emplace(transfer, std::move(pair)); }
  const Pair& Of(uint32_t transfer) const { return bound_.find(transfer)->second; }
  // All of them go: what was bound is read no more.
  void Clear() {
    bound_.clear();
    spare_.clear();
  }
  // They are invalid: spare again.
  void Return(uint32_t transfer) {
    const auto found = bound_.find(transfer);
    if (found == bound_.end()) return;
    for (Bound& bound : found->second) {
      if (bound.window != nullptr) spare_.push_back(std::move(bound.window));
    }
    bound_.erase(found);
  }

 private:
  ProtectionDomain& domain_;
  size_t made_ = 0;
  std::vector<std::unique_ptr<MemoryWindow>> spare_;
  absl::flat_hash_map<uint32_t, Pair> bound_;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_WINDOWS_H_
