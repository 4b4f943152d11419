#include "farcall/transports/rdma/softnic/key_table.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farcall::softnic {
namespace {

// Without overflow, whatever the numbers are.
bool Covers(uint64_t start, uint64_t size, uint64_t address, uint64_t bytes) {
  return address >= start && bytes <= size && address - start <= size - bytes;
}

// What was loaded before is not loaded again behind it.
inline void LoadFence() {
#if defined(__x86_64__)
  asm volatile("" ::: "memory");  // the processor keeps loads in order
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace

std::optional<RemotePlace> PeerKeys::Find(uint32_t rkey, uint64_t address, uint64_t bytes) const {
  const uint32_t index = KeyIndex(rkey);
  if (rkey == 0 || index >= count_) return std::nullopt;
  const RemoteKey& entry = entries_[index];
  if (entry.key.load(std::memory_order_acquire) != rkey) return std::nullopt;
  const uint64_t start = entry.address.load(std::memory_order_acquire);
  const uint64_t size = entry.bytes.load(std::memory_order_acquire);
  const uint64_t offset = entry.offset.load(std::memory_order_acquire);
  const uint32_t slab = entry.slab.load(std::memory_order_acquire);
  if (entry.key.load(std::memory_order_acquire) != rkey) return std::nullopt;
  if (!Covers(start, size, address, bytes)) return std::nullopt;
  const uint64_t within = address - start;
  if (offset > UINT64_MAX - within) return std::nullopt;
  return RemotePlace{slab, offset + within};
}

bool PeerKeys::StillValid(uint32_t rkey) const {
  LoadFence();
  return entries_[KeyIndex(rkey)].key.load(std::memory_order_relaxed) == rkey;
}

absl::StatusOr<std::unique_ptr<KeyTable>> KeyTable::Create(uint32_t entries) {
  absl::StatusOr<OwnMemory> shared =
      OwnMemory::Create("farcall-softnic-keys", entries * sizeof(RemoteKey));
  if (!shared.ok()) return shared.status();
  absl::StatusOr<Mapping> local = MapPrivate(entries * sizeof(LocalKey));
  if (!local.ok()) return local.status();
  return std::unique_ptr<KeyTable>(new KeyTable(entries, *std::move(shared), *std::move(local)));
}

KeyTable::KeyTable(uint32_t entries, OwnMemory shared, Mapping local)
    : entries_(entries),
      shared_(std::move(shared)),
      remote_(reinterpret_cast<RemoteKey*>(shared_.base())),
      local_memory_(std::move(local)),
      local_(reinterpret_cast<LocalKey*>(local_memory_.base())) {}

uint32_t KeyTable::Next(uint32_t key) {
  const uint32_t generation = (key + 1) & 0xffff;
  return (key & 0xffff0000) | (generation == 0 ? 1 : generation);
}

absl::StatusOr<uint32_t> KeyTable::Take() {
  const MutexLock lock(mutex_);
  if (unused_ < entries_) return Next(unused_++ << 16);
  if (free_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("softnic: all ", entries_,
                     " keys of the protection domain are in use: raise SoftnicOptions::keys"));
  }
  const uint32_t key = free_.front();
  free_.pop_front();
  return key;
}

void KeyTable::GiveBack(uint32_t key) {
  const MutexLock lock(mutex_);
  free_.push_back(Next(key));
}

void KeyTable::SetLocal(uint32_t key, std::span<std::byte> memory, rdma::Access access) {
  LocalKey& entry = local_[KeyIndex(key)];
  entry.address.store(reinterpret_cast<uintptr_t>(memory.data()), std::memory_order_relaxed);
  entry.bytes.store(memory.size(), std::memory_order_relaxed);
  entry.local_write.store(access.local_write, std::memory_order_relaxed);
  entry.remote_write.store(access.remote_write, std::memory_order_relaxed);
  entry.key.store(key, std::memory_order_release);
}

void KeyTable::ClearLocal(uint32_t key) {
  local_[KeyIndex(key)].key.store(0, std::memory_order_seq_cst);
}

const KeyTable::LocalKey* KeyTable::FindLocal(uint32_t key, const std::byte* address,
                                              uint64_t bytes) const {
  if (key == 0 || KeyIndex(key) >= entries_) return nullptr;
  const LocalKey& entry = local_[KeyIndex(key)];
  if (entry.key.load(std::memory_order_acquire) != key) return nullptr;
  return Covers(entry.address.load(std::memory_order_relaxed),
                entry.bytes.load(std::memory_order_relaxed), reinterpret_cast<uintptr_t>(address),
                bytes)
             ? &entry
             : nullptr;
}

bool KeyTable::MayRead(uint32_t key, const std::byte* address, uint64_t bytes) const {
  return FindLocal(key, address, bytes) != nullptr;
}

bool KeyTable::MayWrite(uint32_t key, const std::byte* address, uint64_t bytes,
                        bool remote_write) const {
  const LocalKey* entry = FindLocal(key, address, bytes);
  return entry != nullptr && entry->local_write.load(std::memory_order_relaxed) &&
         (!remote_write || entry->remote_write.load(std::memory_order_relaxed));
}

void KeyTable::SetRemote(uint32_t key, uint32_t slab, uint64_t address, uint64_t offset,
                         uint64_t bytes) {
  RemoteKey& entry = remote(key);
  // Exchanged: nothing that follows is seen before the old key is gone.
  entry.key.exchange(0, std::memory_order_seq_cst);
  entry.slab.store(slab, std::memory_order_relaxed);
  entry.address.store(address, std::memory_order_relaxed);
  entry.offset.store(offset, std::memory_order_relaxed);
  entry.bytes.store(bytes, std::memory_order_relaxed);
  entry.key.store(key, std::memory_order_release);
}

bool KeyTable::ClearRemote(uint32_t key) {
  if (key == 0 || KeyIndex(key) >= entries_) return false;
  uint32_t expected = key;
  // The owner may write the memory again as soon as this returns.
  return remote(key).key.compare_exchange_strong(expected, 0, std::memory_order_seq_cst);
}

void KeyTable::ClearRemoteOfSlab(uint32_t slab) {
  for (uint32_t i = 0; i < entries_; ++i) {
    if (remote_[i].slab.load(std::memory_order_relaxed) == slab) {
      remote_[i].key.exchange(0, std::memory_order_seq_cst);
    }
  }
}

}  // namespace farcall::softnic
