#include "farcall/rpc/buffer_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/poison.h"

namespace farcall {
namespace {

constexpr size_t kSmallestSlot = 256;
constexpr size_t kLargestSlot = size_t{32} << 20;
constexpr size_t kClasses = std::countr_zero(kLargestSlot) - std::countr_zero(kSmallestSlot) + 1;
constexpr size_t kOwnSlab = kClasses;  // the "class" of requests above kLargestSlot
constexpr size_t kLists = kClasses + 1;
// Small slots share a slab, so that a slab costs few calls to the source (a registration each, when
// the memory is a device's); large ones have one each, so that every one can go back by itself.
constexpr size_t kSlabBytes = size_t{64} << 10;
constexpr size_t kSlotsOfMiddleSlab = 4;
constexpr size_t kPage = 4096;
// From here on a lazy slot grows by steps that a huge page fills. Its first bytes come in small
// pages: a peer that sends one byte of each of many payloads makes us hold a page of each.
constexpr size_t kHugePage = size_t{2} << 20;
// Threads are spread over the shards in turn. More shards would leave more slots lying idle.
constexpr size_t kShards = 8;

size_t SlotBytes(size_t size_class) { return kSmallestSlot << size_class; }

size_t ClassOf(size_t bytes) {
  if (bytes > kLargestSlot) return kOwnSlab;
  const size_t rounded = std::bit_ceil(std::max(bytes, kSmallestSlot));
  return static_cast<size_t>(std::countr_zero(rounded) - std::countr_zero(kSmallestSlot));
}

// For a request of `bytes`, which rounding up does not overflow.
size_t SlotBytesFor(size_t size_class, size_t bytes) {
  if (size_class != kOwnSlab) return SlotBytes(size_class);
  return (bytes + kPage - 1) / kPage * kPage;
}

size_t SlotsInSlab(size_t size_class) {
  if (size_class == kOwnSlab) return 1;
  const size_t bytes = SlotBytes(size_class);
  if (bytes > kMaxSmallSlot) return 1;
  return std::max(kSlabBytes / bytes, kSlotsOfMiddleSlab);
}

size_t ShardOfThisThread() {
  static std::atomic<size_t> next{0};
  thread_local const size_t shard = next.fetch_add(1, std::memory_order_relaxed) % kShards;
  return shard;
}

}  // namespace

// The pool's memory and books. Lives until the pool and every Buffer are gone.
//
// A slab belongs to one shard and one class for life; its slots are leased from and return to it.
// Each shard has, for each class, a list of the slabs that have a free slot.
class BufferPool::Core {
 public:
  Core(BufferPoolOptions options, std::unique_ptr<SlabSource> source)
      : options_(options), source_(std::move(source)) {
    for (Shard& shard : shards_) shard.core = this;
  }

  absl::Status CheckFits(uint64_t bytes) const;
  absl::StatusOr<Buffer> Allocate(size_t bytes);
  absl::StatusOr<Buffer> AllocateLazily(size_t bytes);
  static absl::Status Commit(const Buffer& buffer, size_t bytes);
  bool GiveBackIdle(TimePoint now);
  Stats GetStats() const;
  void ClosePool();

 private:
  struct SlabRecord;
  struct Shard;

  struct Slot : BufferSlot {
    SlabRecord* slab = nullptr;
    Slot* next_free = nullptr;
  };

  // Headers are apart from the data: device memory holds data only.
  struct SlabRecord {
    SlabSource::Slab memory;
    Shard* shard = nullptr;
    size_t size_class = 0;
    size_t slot_bytes = 0;
    size_t slot_count = 0;
    std::unique_ptr<Slot[]> slots;
    // What the pool is charged for: all of it, but for a lazy slab (of one slot) that is not filled
    // yet. Changes only while the slot is leased, by its holder.
    size_t charged = 0;
    // Under the shard's lock:
    size_t free_count = 0;
    Slot* free = nullptr;    // last in, first out: the warmest first
    TimePoint idle_since{};  // as GiveBackIdle first saw it; the epoch: used since
    SlabRecord* previous = nullptr;
    SlabRecord* next = nullptr;

    size_t bytes() const { return slot_bytes * slot_count; }
    size_t charged_of_slot() const { return std::min(charged, slot_bytes); }
    bool all_free() const { return free_count == slot_count; }
  };

  struct alignas(64) Shard {
    mutable SpinMutex mutex;
    Core* core = nullptr;
    std::array<SlabRecord*, kLists> with_free ABSL_GUARDED_BY(mutex){};
    uint64_t leases ABSL_GUARDED_BY(mutex) = 0;
    uint64_t allocations ABSL_GUARDED_BY(mutex) = 0;
    bool pool_closed ABSL_GUARDED_BY(mutex) = false;
    // Written under the lock only; read by anybody who adds up all shards.
    std::atomic<size_t> leased_bytes{0};
  };

  static void ReleaseSlot(BufferSlot* slot);

  static void AddLeased(Shard& shard, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);
  static Buffer Lease(Shard& shard, SlabRecord& slab, size_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);
  std::optional<Buffer> TakeFree(Shard& shard, size_t size_class, size_t bytes);
  absl::StatusOr<Buffer> AllocateSlow(Shard& shard, size_t size_class, size_t bytes);
  absl::StatusOr<SlabRecord*> MapSlab(Shard& shard, size_t size_class, size_t slot_bytes,
                                      size_t slot_count, bool lazily);
  void DropSlab(SlabRecord* slab);
  absl::Status Grow(SlabRecord& slab, size_t bytes, size_t wanted);
  // What slots of `slot_bytes` may take together with all others.
  size_t LimitFor(size_t slot_bytes) const;
  bool Reserve(size_t bytes, size_t limit);
  // Unmaps slabs without a lease, of slots of more than `above` bytes, until `wanted` bytes were
  // freed; returns whether any was.
  bool Reclaim(size_t wanted, size_t above = 0);
  template <typename Which>
  void DropIdle(Which which);
  // Whether more than max_cached_bytes would be idle once `releasing` bytes are back.
  bool CachesTooMuch(size_t releasing) const;
  absl::Status Exhausted(size_t bytes) const;
  static void Link(Shard& shard, SlabRecord& slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);
  static void Unlink(Shard& shard, SlabRecord& slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);
  void ShardDone();
  ~Core();

  const BufferPoolOptions options_;
  const std::unique_ptr<SlabSource> source_;
  std::atomic<size_t> mapped_bytes_{0};  // of all slabs: leased + cached
  std::atomic<uint64_t> slab_maps_{0};
  std::atomic<size_t> large_slabs_{0};        // those of slots above kMaxSmallSlot
  std::atomic<size_t> open_shards_{kShards};  // not closed, or with leases out
  std::array<Shard, kShards> shards_;
};

// ---- allocating ----

absl::StatusOr<Buffer> BufferPool::Core::Allocate(size_t bytes) {
  Shard& shard = shards_[ShardOfThisThread()];
  const size_t size_class = ClassOf(bytes);
  if (std::optional<Buffer> warm = TakeFree(shard, size_class, bytes)) return *std::move(warm);
  return AllocateSlow(shard, size_class, bytes);
}

std::optional<Buffer> BufferPool::Core::TakeFree(Shard& shard, size_t size_class, size_t bytes) {
  SpinLock lock(shard.mutex);
  SlabRecord* slab = shard.with_free[size_class];
  // The slots of a class are alike; a slab of its own must be large enough, and not a waste.
  while (slab != nullptr && (slab->slot_bytes < bytes || slab->slot_bytes / 2 > bytes) &&
         size_class == kOwnSlab) {
    slab = slab->next;
  }
  if (slab == nullptr) return std::nullopt;
  return Lease(shard, *slab, bytes);
}

// `bytes` may be the negative of what is given back.
void BufferPool::Core::AddLeased(Shard& shard, size_t bytes) {
  shard.leased_bytes.store(shard.leased_bytes.load(std::memory_order_relaxed) + bytes,
                           std::memory_order_relaxed);
}

Buffer BufferPool::Core::Lease(Shard& shard, SlabRecord& slab, size_t bytes) {
  Slot* slot = slab.free;
  slab.free = slot->next_free;
  if (--slab.free_count == 0) Unlink(shard, slab);
  slab.idle_since = {};
  ++shard.leases;
  ++shard.allocations;
  AddLeased(shard, slab.charged_of_slot());
  Unpoison(slot->base, slot->capacity);
  return Buffer(slot, bytes);
}

absl::StatusOr<Buffer> BufferPool::Core::AllocateSlow(Shard& shard, size_t size_class,
                                                      size_t bytes) {
  // Rounding a hostile size up must not wrap to a small one.
  if (bytes > options_.max_bytes || bytes > SIZE_MAX - kPage) return Exhausted(bytes);
  const size_t slot_bytes = SlotBytesFor(size_class, bytes);
  const size_t limit = LimitFor(slot_bytes);
  size_t slot_count = SlotsInSlab(size_class);
  // Near the limit a slab of one slot does, and then another shard's free slot or the room that
  // idle slabs take.
  if (!Reserve(slot_bytes * slot_count, limit)) {
    slot_count = 1;
    while (!Reserve(slot_bytes, limit)) {
      for (Shard& other : shards_) {
        if (std::optional<Buffer> warm = TakeFree(other, size_class, bytes)) {
          return *std::move(warm);
        }
      }
      if (!Reclaim(slot_bytes)) return Exhausted(bytes);
    }
  }
  absl::StatusOr<SlabRecord*> slab = MapSlab(shard, size_class, slot_bytes, slot_count, false);
  if (!slab.ok()) {
    mapped_bytes_.fetch_sub(slot_bytes * slot_count, std::memory_order_relaxed);
    return slab.status();
  }
  SpinLock lock(shard.mutex);
  Link(shard, **slab);
  return Lease(shard, **slab, bytes);
}

absl::StatusOr<Buffer> BufferPool::Core::AllocateLazily(size_t bytes) {
  if (bytes <= kMaxSmallSlot || !source_->lazy()) return Allocate(bytes);
  Shard& shard = shards_[ShardOfThisThread()];
  const size_t size_class = ClassOf(bytes);
  if (std::optional<Buffer> warm = TakeFree(shard, size_class, bytes)) return *std::move(warm);
  // What can never be committed is refused now.
  if (bytes > LimitFor(bytes) || bytes > SIZE_MAX - kPage) return Exhausted(bytes);
  absl::StatusOr<SlabRecord*> slab =
      MapSlab(shard, size_class, SlotBytesFor(size_class, bytes), 1, true);
  if (!slab.ok()) return slab.status();
  SpinLock lock(shard.mutex);
  Link(shard, **slab);
  return Lease(shard, **slab, bytes);
}

absl::Status BufferPool::Core::Commit(const Buffer& buffer, size_t bytes) {
  const BufferSlot* slot = buffer.slot();
  if (slot == nullptr || slot->release != &ReleaseSlot) return absl::OkStatus();
  SlabRecord& slab = *static_cast<const Slot*>(slot)->slab;
  if (bytes <= slab.charged_of_slot()) return absl::OkStatus();
  assert(bytes <= slab.slot_bytes && slab.slot_count == 1);
  // A slot that is filled is worth keeping warm: it is charged in full, if there is room.
  const auto view_end = static_cast<size_t>(buffer.data() - slot->base) + buffer.size();
  if (bytes >= view_end && slab.shard->core->Grow(slab, slab.slot_bytes, bytes).ok()) {
    return absl::OkStatus();
  }
  const auto base = reinterpret_cast<uintptr_t>(slot->base);
  const size_t step = bytes > kHugePage ? kHugePage : kPage;
  const size_t goal = (base + bytes + step - 1) / step * step - base;
  return slab.shard->core->Grow(slab, std::min(goal, slab.slot_bytes), bytes);
}

// Charges `slab` for its first `bytes`, of which the user asked for `wanted`.
absl::Status BufferPool::Core::Grow(SlabRecord& slab, size_t bytes, size_t wanted) {
  const size_t more = bytes - slab.charged;
  while (!Reserve(more, LimitFor(slab.slot_bytes))) {
    if (!Reclaim(more)) return Exhausted(wanted - slab.charged);
  }
  source_->Commit(slab.memory, slab.charged, bytes);
  SpinLock lock(slab.shard->mutex);
  slab.charged = bytes;
  AddLeased(*slab.shard, more);
  return absl::OkStatus();
}

absl::StatusOr<BufferPool::Core::SlabRecord*> BufferPool::Core::MapSlab(
    Shard& shard, size_t size_class, size_t slot_bytes, size_t slot_count, bool lazily) {
  slab_maps_.fetch_add(1, std::memory_order_relaxed);
  const auto map = [&] {
    return lazily ? source_->MapLazily(slot_bytes) : source_->Map(slot_bytes * slot_count);
  };
  absl::StatusOr<SlabSource::Slab> memory = map();
  // The system has no more: what lies idle here may be enough. Not what small calls live on.
  if (!memory.ok() && Reclaim(slot_bytes * slot_count, kMaxSmallSlot)) memory = map();
  if (!memory.ok()) {
    return absl::Status(memory.status().code(),
                        absl::StrCat(options_.name, " pool: ", memory.status().message()));
  }
  assert(memory->size >= slot_bytes * slot_count);
  assert(reinterpret_cast<uintptr_t>(memory->base) % kBufferAlignment == 0);
  if (slot_bytes > kMaxSmallSlot) large_slabs_.fetch_add(1, std::memory_order_relaxed);
  auto* slab = new SlabRecord;
  slab->memory = *memory;
  slab->shard = &shard;
  slab->size_class = size_class;
  slab->slot_bytes = slot_bytes;
  slab->slot_count = slab->free_count = slot_count;
  slab->charged = lazily ? 0 : slab->bytes();
  slab->slots = std::make_unique<Slot[]>(slot_count);
  for (size_t i = slot_count; i-- > 0;) {
    Slot& slot = slab->slots[i];
    slot.base = memory->base + i * slot_bytes;
    slot.capacity = slot_bytes;
    slot.domain = memory->domain;
    slot.region = memory->region;
    slot.release = &ReleaseSlot;
    slot.slab = slab;
    slot.next_free = std::exchange(slab->free, &slot);
  }
  Poison(memory->base, slab->charged);
  return slab;
}

size_t BufferPool::Core::LimitFor(size_t slot_bytes) const {
  if (slot_bytes <= kMaxSmallSlot) return options_.max_bytes;
  return options_.max_bytes - std::min(options_.max_bytes, options_.small_bytes);
}

absl::Status BufferPool::Core::CheckFits(uint64_t bytes) const {
  if (bytes > options_.max_bytes) return Exhausted(bytes);
  const size_t slot_bytes = SlotBytesFor(ClassOf(bytes), bytes);
  return slot_bytes <= LimitFor(slot_bytes) ? absl::OkStatus() : Exhausted(bytes);
}

bool BufferPool::Core::Reserve(size_t bytes, size_t limit) {
  size_t mapped = mapped_bytes_.load(std::memory_order_relaxed);
  do {
    if (mapped > limit || bytes > limit - mapped) return false;
  } while (!mapped_bytes_.compare_exchange_weak(mapped, mapped + bytes, std::memory_order_relaxed));
  return true;
}

absl::Status BufferPool::Core::Exhausted(size_t bytes) const {
  const Stats stats = GetStats();
  return absl::ResourceExhaustedError(absl::StrCat(
      options_.name, " pool: no room for ", bytes, " bytes: ", stats.leased_bytes,
      " bytes are in use and ", stats.cached_bytes, " idle of at most ", LimitFor(bytes),
      LimitFor(bytes) < options_.max_bytes ? " (the rest is for small messages)" : "",
      "; release buffers sooner or raise ", options_.option));
}

// ---- releasing ----

void BufferPool::Core::ReleaseSlot(BufferSlot* base) {
  Slot& slot = *static_cast<Slot*>(base);
  SlabRecord& slab = *slot.slab;
  Shard& shard = *slab.shard;
  Core& core = *shard.core;
  const size_t charged = slab.charged_of_slot();
  Poison(slot.base, charged);
  const bool drop_if_free = charged < slab.slot_bytes || core.CachesTooMuch(slab.slot_bytes);
  bool drop = false;
  bool shard_done = false;
  {
    SpinLock lock(shard.mutex);
    slot.next_free = std::exchange(slab.free, &slot);
    const bool was_full = slab.free_count++ == 0;
    drop = slab.all_free() && (drop_if_free || shard.pool_closed);
    if (was_full && !drop) Link(shard, slab);
    if (!was_full && drop) Unlink(shard, slab);
    AddLeased(shard, size_t{0} - charged);
    --shard.leases;
    shard_done = shard.pool_closed && shard.leases == 0;
  }
  if (drop) core.DropSlab(&slab);
  if (shard_done) core.ShardDone();
}

bool BufferPool::Core::CachesTooMuch(size_t releasing) const {
  const size_t mapped = mapped_bytes_.load(std::memory_order_relaxed);
  if (mapped <= options_.max_cached_bytes) return false;  // the usual case: one load
  size_t leased = 0;
  for (const Shard& shard : shards_) leased += shard.leased_bytes.load(std::memory_order_relaxed);
  // Other threads move these numbers meanwhile: near enough, but never below zero.
  const size_t staying = leased - std::min(leased, releasing);
  return mapped - std::min(mapped, staying) > options_.max_cached_bytes;
}

void BufferPool::Core::DropSlab(SlabRecord* slab) {
  Unpoison(slab->memory.base, slab->charged);
  source_->Unmap(slab->memory);
  mapped_bytes_.fetch_sub(slab->charged, std::memory_order_relaxed);
  if (slab->slot_bytes > kMaxSmallSlot) large_slabs_.fetch_sub(1, std::memory_order_relaxed);
  delete slab;
}

bool BufferPool::Core::Reclaim(size_t wanted, size_t above) {
  size_t freed = 0;
  DropIdle([&](const SlabRecord& slab) {
    if (freed >= wanted || slab.slot_bytes <= above) return false;
    freed += slab.bytes();
    return true;
  });
  return freed > 0;
}

bool BufferPool::Core::GiveBackIdle(TimePoint now) {
  DropIdle([now](SlabRecord& slab) {
    if (slab.slot_bytes <= kMaxSmallSlot) return false;
    if (slab.idle_since == TimePoint{}) slab.idle_since = now;
    return now - slab.idle_since >= kIdleTime;
  });
  return large_slabs_.load(std::memory_order_relaxed) > 0;
}

// Unmaps the slabs without a lease for which `which` says so.
template <typename Which>
void BufferPool::Core::DropIdle(Which which) {
  for (Shard& shard : shards_) {
    SlabRecord* idle = nullptr;
    {
      SpinLock lock(shard.mutex);
      for (SlabRecord* first : shard.with_free) {
        for (SlabRecord* slab = first; slab != nullptr;) {
          SlabRecord* const next = slab->next;
          if (slab->all_free() && which(*slab)) {
            Unlink(shard, *slab);
            slab->next = std::exchange(idle, slab);
          }
          slab = next;
        }
      }
    }
    while (idle != nullptr) DropSlab(std::exchange(idle, idle->next));
  }
}

void BufferPool::Core::Link(Shard& shard, SlabRecord& slab) {
  SlabRecord*& first = shard.with_free[slab.size_class];
  slab.previous = nullptr;
  slab.next = first;
  if (first != nullptr) first->previous = &slab;
  first = &slab;
}

void BufferPool::Core::Unlink(Shard& shard, SlabRecord& slab) {
  (slab.previous != nullptr ? slab.previous->next : shard.with_free[slab.size_class]) = slab.next;
  if (slab.next != nullptr) slab.next->previous = slab.previous;
  slab.previous = slab.next = nullptr;
}

// ---- the end ----

void BufferPool::Core::ClosePool() {
  for (Shard& shard : shards_) {
    bool done = false;
    {
      SpinLock lock(shard.mutex);
      shard.pool_closed = true;
      done = shard.leases == 0;
    }
    if (done) ShardDone();  // the last one deletes this: `shards_` is not touched after it
  }
}

void BufferPool::Core::ShardDone() {
  if (open_shards_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

BufferPool::Core::~Core() {
  for (Shard& shard : shards_) {
    SpinLock lock(shard.mutex);
    for (SlabRecord*& first : shard.with_free) {
      while (SlabRecord* slab = first) {
        Unlink(shard, *slab);
        DropSlab(slab);
      }
    }
  }
}

BufferPool::Stats BufferPool::Core::GetStats() const {
  Stats stats;
  stats.name = options_.name;
  stats.max_bytes = options_.max_bytes;
  stats.slab_maps = slab_maps_.load(std::memory_order_relaxed);
  for (const Shard& shard : shards_) {
    SpinLock lock(shard.mutex);
    stats.allocations += shard.allocations;
    stats.leased_bytes += shard.leased_bytes.load(std::memory_order_relaxed);
  }
  const size_t mapped = mapped_bytes_.load(std::memory_order_relaxed);
  stats.cached_bytes = mapped - std::min(mapped, stats.leased_bytes);
  return stats;
}

BufferPool::BufferPool(BufferPoolOptions options, std::unique_ptr<SlabSource> source)
    : core_(new Core(options, std::move(source))) {}

BufferPool::~BufferPool() { core_->ClosePool(); }

absl::StatusOr<Buffer> BufferPool::Allocate(size_t bytes) { return core_->Allocate(bytes); }

absl::Status BufferPool::CheckFits(uint64_t bytes) const { return core_->CheckFits(bytes); }

absl::StatusOr<Buffer> BufferPool::AllocateLazily(size_t bytes) {
  return core_->AllocateLazily(bytes);
}

absl::Status BufferPool::Commit(const Buffer& buffer, size_t bytes) {
  return Core::Commit(buffer, bytes);
}

bool BufferPool::GiveBackIdle(TimePoint now) { return core_->GiveBackIdle(now); }

BufferPool::Stats BufferPool::stats() const { return core_->GetStats(); }

absl::StatusOr<Buffer> CopyToBuffer(BufferPool& pool, std::span<const std::byte> bytes) {
  absl::StatusOr<Buffer> buffer = pool.Allocate(bytes.size());
  if (buffer.ok() && !bytes.empty()) std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return buffer;
}

}  // namespace farcall
