// The keys of a protection domain: what local requests may touch, and what peers may read.
//
// A key is an index and a generation; an index is used again with the next generation, the one that
// was free for longest first, so that a stale key is refused. What peers may read stands in a
// table of its own in shared memory, which they map read-only: an entry is valid for as long as
// its key word says so. A peer's device looks before and after it copies, and throws away what it
// copied when the key went meanwhile.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_KEY_TABLE_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_KEY_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "farcall/rpc/mutex.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/softnic/shared_memory.h"

namespace farcall::softnic {

struct RemoteKey {
  std::atomic<uint32_t> key;      // 0: none
  std::atomic<uint32_t> slab;     // the memory, as it was announced
  std::atomic<uint64_t> address;  // as the owner sees it
  std::atomic<uint64_t> offset;   // of `address` in the slab
  std::atomic<uint64_t> bytes;
};
static_assert(sizeof(RemoteKey) == 32);

inline constexpr uint32_t KeyIndex(uint32_t key) { return key >> 16; }

// Where the bytes of a READ are. Of a peer's saying: the slab's bounds are still to be checked.
struct RemotePlace {
  uint32_t slab = 0;
  uint64_t offset = 0;
};

// A peer's table. Of a peer's writing.
class PeerKeys {
 public:
  PeerKeys() = default;
  PeerKeys(const std::byte* base, uint32_t entries)
      : entries_(reinterpret_cast<const RemoteKey*>(base)), count_(entries) {}

  // Nothing: the key is not valid, or covers less.
  std::optional<RemotePlace> Find(uint32_t rkey, uint64_t address, uint64_t bytes) const;
  // After a copy: whether the key still is what Find saw.
  bool StillValid(uint32_t rkey) const;

 private:
  const RemoteKey* entries_ = nullptr;
  uint32_t count_ = 0;
};

class KeyTable {
 public:
  static absl::StatusOr<std::unique_ptr<KeyTable>> Create(uint32_t entries);

  const OwnMemory& shared() const { return shared_; }
  uint32_t entries() const { return entries_; }

  // ---- any thread ----

  // An index for a region or window, and its first key. RESOURCE_EXHAUSTED names the option.
  absl::StatusOr<uint32_t> Take();
  void GiveBack(uint32_t key);
  // The next key of the same index.
  static uint32_t Next(uint32_t key);

  void SetLocal(uint32_t key, std::span<std::byte> memory, rdma::Access access);
  void ClearLocal(uint32_t key);
  // Whether a local request may read [address, +bytes), or also write there.
  bool MayRead(uint32_t key, const std::byte* address, uint64_t bytes) const;
  bool MayWrite(uint32_t key, const std::byte* address, uint64_t bytes, bool remote_write) const;

  void SetRemote(uint32_t key, uint32_t slab, uint64_t address, uint64_t offset, uint64_t bytes);
  // False: the key was not valid.
  bool ClearRemote(uint32_t key);
  void ClearRemoteOfSlab(uint32_t slab);

 private:
  struct LocalKey {
    std::atomic<uint32_t> key;
    std::atomic<bool> local_write, remote_write;
    std::atomic<uint64_t> address, bytes;
  };

  KeyTable(uint32_t entries, OwnMemory shared, Mapping local);
  RemoteKey& remote(uint32_t key) { return remote_[KeyIndex(key)]; }
  const LocalKey* FindLocal(uint32_t key, const std::byte* address, uint64_t bytes) const;

  const uint32_t entries_;
  const OwnMemory shared_;
  RemoteKey* const remote_;
  // Zeroed pages, so that only what is used costs memory.
  const Mapping local_memory_;
  LocalKey* const local_;

  Mutex mutex_;
  uint32_t unused_ ABSL_GUARDED_BY(mutex_) = 0;        // indices from here on were never used
  std::deque<uint32_t> free_ ABSL_GUARDED_BY(mutex_);  // the next keys of those that were
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_KEY_TABLE_H_
