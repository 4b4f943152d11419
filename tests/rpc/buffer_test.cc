// Buffers, wrapped memory, and the pool.

#include "farcall/rpc/buffer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/poison.h"
#include "farcall/tests/rpc/heap_count.h"

namespace farcall {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

// A source that keeps books, and may be told to have no memory.
class CountingSource final : public SlabSource {
 public:
  struct Books {
    Mutex mutex;
    std::map<std::byte*, size_t> mapped ABSL_GUARDED_BY(mutex);
    size_t bytes ABSL_GUARDED_BY(mutex) = 0;
    size_t most_bytes ABSL_GUARDED_BY(mutex) = 0;
    std::atomic<bool> source_alive{true};
    std::atomic<bool> out_of_memory{false};

    size_t mapped_bytes() {
      MutexLock lock(mutex);
      return bytes;
    }
    size_t peak() {
      MutexLock lock(mutex);
      return most_bytes;
    }
  };

  explicit CountingSource(std::shared_ptr<Books> books) : books_(std::move(books)) {}
  ~CountingSource() override { books_->source_alive = false; }

  absl::StatusOr<Slab> Map(size_t bytes) override {
    if (books_->out_of_memory) return absl::ResourceExhaustedError("locked memory is used up");
    absl::StatusOr<Slab> slab = plain_->Map(bytes);
    if (!slab.ok()) return slab;
    slab->domain = books_.get();
    slab->region = 42;
    MutexLock lock(books_->mutex);
    books_->mapped[slab->base] = bytes;
    books_->bytes += bytes;
    books_->most_bytes = std::max(books_->most_bytes, books_->bytes);
    return slab;
  }

  void Unmap(const Slab& slab) override {
    {
      MutexLock lock(books_->mutex);
      const auto found = books_->mapped.find(slab.base);
      if (found == books_->mapped.end() || found->second != slab.size) std::abort();
      books_->bytes -= slab.size;
      books_->mapped.erase(found);
    }
    plain_->Unmap(slab);
  }

 private:
  const std::shared_ptr<Books> books_;
  const std::unique_ptr<SlabSource> plain_ = PlainMemory();
};

struct CountedPool {
  explicit CountedPool(BufferPoolOptions options = {})
      : pool(std::make_unique<BufferPool>(options, std::make_unique<CountingSource>(books))) {}
  std::shared_ptr<CountingSource::Books> books = std::make_shared<CountingSource::Books>();
  std::unique_ptr<BufferPool> pool;
};

Buffer MustAllocate(BufferPool& pool, size_t bytes) {
  absl::StatusOr<Buffer> buffer = pool.Allocate(bytes);
  REQUIRE(buffer.ok());
  return *std::move(buffer);
}

// ---- Buffer and WrapBytes ----

TEST_CASE("wrapped bytes are released once, when the last holder lets go") {
  std::string text = "attachment";
  int released = 0;
  Buffer outer;
  {
    Buffer buffer = WrapBytes(
        std::as_bytes(std::span(text)), [](void* count) { ++*static_cast<int*>(count); },
        &released);
    CHECK(buffer.data() == static_cast<const void*>(text.data()));
    CHECK(buffer.view() == "attachment");
    Buffer moved(std::move(buffer));
    CHECK_FALSE(buffer);  // NOLINT(bugprone-use-after-move)
    CHECK(buffer.empty());
    outer = std::move(moved);
  }
  CHECK(released == 0);
  outer.SetView(2, 3);
  CHECK(outer.view() == "tac");
  outer.Reset();
  CHECK(released == 1);
  CHECK_FALSE(outer);
  outer.Reset();
  CHECK(released == 1);
}

TEST_CASE("assigning over a lease gives it back; self-move keeps it") {
  int released = 0;
  const auto count = [](void* counter) { ++*static_cast<int*>(counter); };
  Buffer buffer = WrapBytes({}, count, &released);
  CHECK(static_cast<bool>(buffer));
  CHECK(buffer.empty());
  Buffer& same = buffer;
  buffer = std::move(same);
  CHECK(released == 0);
  buffer = WrapBytes({}, count, &released);
  CHECK(released == 1);
  buffer = Buffer();
  CHECK(released == 2);
}

// ---- the pool ----

TEST_CASE("slots are aligned, large enough, and of powers of two") {
  CountedPool counted;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{256}, size_t{257}, 4 * kKiB, 64 * kKiB + 1, kMiB, kMiB + 1,
        16 * kMiB + 100, 32 * kMiB, 32 * kMiB + 1, 40 * kMiB}) {
    INFO(bytes);
    Buffer buffer = MustAllocate(*counted.pool, bytes);
    REQUIRE(buffer);
    CHECK(buffer.size() == bytes);
    CHECK(buffer.slot()->capacity >= bytes);
    CHECK(buffer.slot()->capacity < std::max<size_t>(2 * bytes, 257));
    CHECK(buffer.slot()->capacity % kBufferAlignment == 0);
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment == 0);
    CHECK(buffer.slot()->domain == counted.books.get());
    CHECK(buffer.slot()->region == 42);
    buffer.SetView(0, buffer.slot()->capacity);
    std::memset(buffer.data(), 0x5a, buffer.size());  // all of it is ours
  }
}

TEST_CASE("buffers do not overlap") {
  BufferPool pool;
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < 2000; ++i) {
    buffers.push_back(MustAllocate(pool, 1 + i * 7 % 3000));
    std::memset(buffers.back().data(), static_cast<int>(i % 251), buffers.back().size());
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    for (const std::byte byte : buffers[i].bytes()) {
      if (byte != static_cast<std::byte>(i % 251)) FAIL("buffer " << i << " was overwritten");
    }
  }
}

TEST_CASE("steady traffic takes nothing from the source or the heap") {
  CountedPool counted;
  const auto round = [&] {
    Buffer small = MustAllocate(*counted.pool, 300);
    Buffer middle = MustAllocate(*counted.pool, 70 * kKiB);
    Buffer large = MustAllocate(*counted.pool, 16 * kMiB + 64);
  };
  round();
  const uint64_t maps = counted.pool->stats().slab_maps;
  const uint64_t heap = HeapAllocations();
  bool failed = false;
  for (int i = 0; i < 1000; ++i) {
    for (const size_t bytes : {size_t{300}, 70 * kKiB, 16 * kMiB + 64}) {
      failed |= !counted.pool->Allocate(bytes).ok();
    }
  }
  CHECK(HeapAllocations() == heap);
  CHECK_FALSE(failed);
  CHECK(counted.pool->stats().slab_maps == maps);
  CHECK(counted.pool->stats().allocations == 3 + 3000);
}

TEST_CASE("a freed slot is the next one out") {
  BufferPool pool;
  Buffer first = MustAllocate(pool, 1000);
  const std::byte* const address = first.data();
  first.Reset();
  CHECK(MustAllocate(pool, 600).data() == address);
}

#ifdef FARCALL_ADDRESS_SANITIZER
extern "C" int __asan_address_is_poisoned(const volatile void* address);

TEST_CASE("a touch of a released buffer is reported") {
  BufferPool pool;
  Buffer buffer = MustAllocate(pool, 1000);
  const std::byte* const address = buffer.data();
  CHECK_FALSE(__asan_address_is_poisoned(address));
  CHECK_FALSE(__asan_address_is_poisoned(address + 1023));
  CHECK(__asan_address_is_poisoned(address + 1024));  // the neighbour was never handed out
  buffer.Reset();
  CHECK(__asan_address_is_poisoned(address));
  CHECK(__asan_address_is_poisoned(address + 1023));
  buffer = MustAllocate(pool, 600);
  CHECK(buffer.data() == address);
  CHECK_FALSE(__asan_address_is_poisoned(address + 1023));
}
#endif

TEST_CASE("the books balance") {
  CountedPool counted;
  Buffer small = MustAllocate(*counted.pool, 1000);
  Buffer own = MustAllocate(*counted.pool, 40 * kMiB);
  CHECK(counted.pool->stats().leased_bytes == 1 * kKiB + 40 * kMiB);
  CHECK(counted.pool->stats().cached_bytes == 63 * kKiB);  // the rest of the small one's slab
  CHECK(counted.books->mapped_bytes() == 64 * kKiB + 40 * kMiB);
  own.Reset();
  small.Reset();
  CHECK(counted.pool->stats().leased_bytes == 0);
  CHECK(counted.pool->stats().cached_bytes == 64 * kKiB + 40 * kMiB);
}

TEST_CASE("a slab of its own is used again for what fits it and fills half of it") {
  CountedPool counted;
  MustAllocate(*counted.pool, 80 * kMiB);
  const std::byte* warm = MustAllocate(*counted.pool, 79 * kMiB).data();
  CHECK(MustAllocate(*counted.pool, 80 * kMiB).data() == warm);
  CHECK(MustAllocate(*counted.pool, 40 * kMiB).data() == warm);
  CHECK(counted.pool->stats().slab_maps == 1);
  const Buffer smaller = MustAllocate(*counted.pool, 39 * kMiB);
  const Buffer larger = MustAllocate(*counted.pool, 81 * kMiB);
  CHECK(counted.pool->stats().slab_maps == 3);
  CHECK(counted.books->mapped_bytes() == (80 + 39 + 81) * kMiB);
}

TEST_CASE("large memory that nobody uses goes back to the system") {
  CountedPool counted;
  BufferPool& pool = *counted.pool;
  const TimePoint start = Clock::Steady().Now();
  const auto idle = [&](double times) {
    return start + std::chrono::duration_cast<Duration>(times * BufferPool::kIdleTime);
  };
  CHECK_FALSE(pool.GiveBackIdle(start));
  Buffer held = MustAllocate(pool, 2 * kMiB);
  MustAllocate(pool, 40 * kMiB);
  MustAllocate(pool, kMiB);
  MustAllocate(pool, 100);
  CHECK(pool.GiveBackIdle(start));
  CHECK(pool.GiveBackIdle(idle(0.9)));
  CHECK(counted.books->mapped_bytes() == 43 * kMiB + 64 * kKiB);
  MustAllocate(pool, kMiB);  // in use: its time begins anew
  CHECK(pool.GiveBackIdle(idle(1)));
  CHECK(counted.books->mapped_bytes() == 3 * kMiB + 64 * kKiB);
  CHECK(pool.GiveBackIdle(idle(2)));
  CHECK(counted.books->mapped_bytes() == 2 * kMiB + 64 * kKiB);
  held.Reset();
  CHECK(pool.GiveBackIdle(idle(4)));
  CHECK_FALSE(pool.GiveBackIdle(idle(5)));
  CHECK(counted.books->mapped_bytes() == 64 * kKiB);  // small slots stay
}

TEST_CASE("max_bytes holds for every request, however large") {
  BufferPoolOptions options;
  options.name = "receive";
  options.max_bytes = kMiB;
  CountedPool counted(options);
  for (const size_t bytes : {kMiB + 1, 33 * kMiB, SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4095,
                             SIZE_MAX - 4096, SIZE_MAX / 2, SIZE_MAX / 2 + 1}) {
    INFO(bytes);
    const absl::Status status = counted.pool->Allocate(bytes).status();
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK_THAT(std::string(status.message()),
               Catch::Contains("receive pool") &&
                   Catch::Contains(std::to_string(bytes) + " bytes") &&
                   Catch::Contains("1048576") && Catch::Contains("max_bytes"));
  }
  CHECK(counted.books->mapped_bytes() == 0);
  CHECK(counted.pool->CheckFits(kMiB).ok());
  for (const uint64_t bytes : {uint64_t{kMiB} + 1, UINT64_MAX, UINT64_MAX - 4096}) {
    CHECK(counted.pool->CheckFits(bytes).code() == absl::StatusCode::kResourceExhausted);
  }

  std::vector<Buffer> buffers;
  while (true) {
    absl::StatusOr<Buffer> buffer = counted.pool->Allocate(100 * kKiB);
    if (!buffer.ok()) break;
    buffers.push_back(*std::move(buffer));
  }
  CHECK(buffers.size() == 8);  // of 128 KiB
  CHECK_FALSE(counted.pool->Allocate(0).ok());
  buffers.pop_back();
  CHECK(counted.pool->Allocate(0).ok());
  CHECK(counted.books->peak() <= kMiB);
}

TEST_CASE("an unlimited pool survives absurd requests") {
  BufferPoolOptions options;
  options.max_bytes = SIZE_MAX;
  BufferPool pool(options);
  Buffer held = MustAllocate(pool, 1);  // so that adding to what is mapped could wrap
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX - 64 * kKiB, SIZE_MAX / 2 + 2}) {
    CHECK(pool.Allocate(bytes).status().code() == absl::StatusCode::kResourceExhausted);
  }
  CHECK(pool.stats().leased_bytes == 256);
}

TEST_CASE("a pool smaller than a slab hands out what it has") {
  BufferPoolOptions options;
  options.max_bytes = 1000;
  CountedPool counted(options);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 3; ++i) buffers.push_back(MustAllocate(*counted.pool, 256));
  CHECK_FALSE(counted.pool->Allocate(1).ok());
  CHECK(counted.books->peak() == 768);
}

TEST_CASE("at the limit, idle memory of other sizes and other threads makes room") {
  BufferPoolOptions options;
  options.max_bytes = 2 * kMiB;
  CountedPool counted(options);
  // Another thread's shard holds a warm slot, and nothing else is left.
  std::thread([&] { MustAllocate(*counted.pool, 2 * kMiB); }).join();
  CHECK(counted.pool->stats().cached_bytes == 2 * kMiB);
  { Buffer taken = MustAllocate(*counted.pool, 2 * kMiB); }
  CHECK(counted.pool->stats().slab_maps == 1);
  // The cached 2 MiB slab goes, for a slab of another size.
  Buffer other = MustAllocate(*counted.pool, kMiB);
  CHECK(counted.books->mapped_bytes() == kMiB);
  CHECK(counted.books->peak() <= 2 * kMiB);
}

TEST_CASE("what is cached stays within max_cached_bytes") {
  BufferPoolOptions options;
  options.max_cached_bytes = 4 * kMiB;
  CountedPool counted(options);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 16; ++i) buffers.push_back(MustAllocate(*counted.pool, kMiB));
  CHECK(counted.books->mapped_bytes() == 16 * kMiB);
  buffers.clear();
  CHECK(counted.pool->stats().cached_bytes <= 4 * kMiB);
  CHECK(counted.pool->stats().cached_bytes >= 3 * kMiB);
  CHECK(counted.books->mapped_bytes() == counted.pool->stats().cached_bytes);

  options.max_cached_bytes = 0;
  CountedPool uncached(options);
  MustAllocate(*uncached.pool, 1);
  MustAllocate(*uncached.pool, kMiB);
  CHECK(uncached.books->mapped_bytes() == 0);
}

TEST_CASE("a source without memory is an error that names the pool") {
  BufferPoolOptions options;
  options.name = "device";
  CountedPool counted(options);
  counted.books->out_of_memory = true;
  const absl::Status status = counted.pool->Allocate(100).status();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(status.message() == "device pool: locked memory is used up");
  CHECK(counted.pool->stats().cached_bytes == 0);  // the reservation was given back
  counted.books->out_of_memory = false;
  CHECK(counted.pool->Allocate(100).ok());
}

TEST_CASE("the memory lives exactly as long as the pool or its last buffer") {
  CountedPool counted;
  Buffer small = MustAllocate(*counted.pool, 100);
  Buffer neighbour = MustAllocate(*counted.pool, 100);
  Buffer large = MustAllocate(*counted.pool, kMiB);
  Buffer own = MustAllocate(*counted.pool, 33 * kMiB);
  counted.pool.reset();
  CHECK(counted.books->source_alive);
  std::memset(small.data(), 1, small.size());
  own.Reset();
  large.Reset();
  small.Reset();
  CHECK(counted.books->source_alive);
  CHECK(counted.books->mapped_bytes() == 64 * kKiB);
  std::memset(neighbour.data(), 1, neighbour.size());
  std::thread([buffer = std::move(neighbour)]() mutable { buffer.Reset(); }).join();
  CHECK_FALSE(counted.books->source_alive);
  CHECK(counted.books->mapped_bytes() == 0);

  CountedPool empty;
  MustAllocate(*empty.pool, 100);
  empty.pool.reset();
  CHECK_FALSE(empty.books->source_alive);
}

TEST_CASE("large memory that is promised is charged as it is filled") {
  BufferPoolOptions options;
  options.max_bytes = 8 * kMiB;
  options.max_cached_bytes = 8 * kMiB;
  BufferPool pool(options);
  struct Case {
    size_t bytes;      // promised
    size_t committed;  // asked for
    size_t least, most;
  };
  for (const Case& at :
       {Case{100 * kKiB, 0, 0, 0}, Case{100 * kKiB, 1, 4 * kKiB, 4 * kKiB},
        Case{100 * kKiB, 5000, 8 * kKiB, 8 * kKiB},
        Case{100 * kKiB, 100 * kKiB, 128 * kKiB, 128 * kKiB}, Case{4 * kMiB, kMiB, kMiB, kMiB},
        Case{8 * kMiB, 3 * kMiB, 3 * kMiB, 6 * kMiB},  // by huge pages
        Case{7 * kMiB, 7 * kMiB, 7 * kMiB, 8 * kMiB}}) {
    CAPTURE(at.bytes, at.committed);
    Buffer buffer = *pool.AllocateLazily(at.bytes);
    CHECK(buffer.size() == at.bytes);
    CHECK(BufferPool::Commit(buffer, at.committed).ok());
    CHECK(BufferPool::Commit(buffer, at.committed).ok());
    std::memset(buffer.data(), 1, at.committed);
    const BufferPool::Stats stats = pool.stats();
    CHECK(stats.leased_bytes >= at.least);
    CHECK(stats.leased_bytes <= at.most);
    // One that was not filled goes back to the system, a filled one stays.
    const bool filled = at.committed == at.bytes;
    const size_t before = stats.cached_bytes;
    buffer.Reset();
    CHECK(pool.stats().leased_bytes == 0);
    CHECK((pool.stats().cached_bytes > before) == filled);
  }
}

TEST_CASE("promises take nothing from others, filling them may fail") {
  BufferPoolOptions options;
  options.max_bytes = 4 * kMiB;
  BufferPool pool(options);
  std::vector<Buffer> promised;
  for (int i = 0; i < 64; ++i) promised.push_back(*pool.AllocateLazily(3 * kMiB));
  CHECK(pool.stats().leased_bytes == 0);
  CHECK(BufferPool::Commit(promised[0], 3 * kMiB - 1).ok());  // rounded up to huge pages or less
  std::memset(promised[0].data(), 1, 3 * kMiB - 1);
  promised[0] = *pool.AllocateLazily(2 * kMiB);
  CHECK(BufferPool::Commit(promised[0], 2 * kMiB).ok());
  std::memset(promised[0].data(), 1, 2 * kMiB);
  promised.push_back(*pool.AllocateLazily(kMiB));
  CHECK(BufferPool::Commit(promised.back(), kMiB).ok());
  CHECK(BufferPool::Commit(promised[1], 512 * kKiB).ok());
  const absl::Status full = BufferPool::Commit(promised[1], 2 * kMiB);
  CHECK(full.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(full.message()), Catch::Contains("max_bytes"));
  std::memset(promised[1].data(), 1, 512 * kKiB);  // what it had it keeps
  CHECK(pool.stats().leased_bytes <= 4 * kMiB);
  promised[0].Reset();
  CHECK(BufferPool::Commit(promised[1], 2 * kMiB).ok());
  CHECK(pool.AllocateLazily(5 * kMiB).status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(pool.AllocateLazily(SIZE_MAX).status().code() == absl::StatusCode::kResourceExhausted);

  // Memory of another origin is there already.
  CountedPool registered(options);
  Buffer whole = *registered.pool->AllocateLazily(kMiB);
  CHECK(registered.pool->stats().leased_bytes == kMiB);
  CHECK(BufferPool::Commit(whole, kMiB).ok());
  CHECK(BufferPool::Commit(Buffer(), 0).ok());
  const std::string text(100, 'x');
  CHECK(BufferPool::Commit(WrapBytes(std::as_bytes(std::span(text)), nullptr, nullptr), 100).ok());
}

TEST_CASE("large slots leave small ones their part of the pool") {
  BufferPoolOptions options;
  options.max_bytes = 4 * kMiB;
  options.small_bytes = kMiB;
  BufferPool pool(options);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 3; ++i) buffers.push_back(MustAllocate(pool, kMiB));
  const absl::Status full = pool.Allocate(100 * kKiB).status();
  CHECK(full.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(full.message()), Catch::Contains("of at most 3145728"));
  Buffer promised = *pool.AllocateLazily(kMiB);
  CHECK_FALSE(BufferPool::Commit(promised, 1).ok());
  for (int i = 0; i < 16; ++i) buffers.push_back(MustAllocate(pool, kMaxSmallSlot));
  CHECK_FALSE(pool.Allocate(1).ok());
}

TEST_CASE("CopyToBuffer copies") {
  BufferPool pool;
  const std::string text(5000, 'x');
  absl::StatusOr<Buffer> copy = CopyToBuffer(pool, std::as_bytes(std::span(text)));
  REQUIRE(copy.ok());
  CHECK(copy->view() == text);
  CHECK(CopyToBuffer(pool, {})->empty());
}

// Each thread allocates, fills, passes on, and frees what it gets from others; the pool goes while
// buffers are still out.
TEST_CASE("threads allocate here and free there") {
  BufferPoolOptions options;
  options.max_bytes = 64 * kMiB;
  options.max_cached_bytes = 2 * kMiB;
  CountedPool counted(options);
  struct Exchange {
    Mutex mutex;
    std::vector<Buffer> buffers ABSL_GUARDED_BY(mutex);
  } exchange;
  std::atomic<int> corrupt{0};
  const auto run = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 4000; ++i) {
      const size_t bytes = random() % 4 == 0 ? random() % (300 * kKiB) : random() % 2000;
      absl::StatusOr<Buffer> buffer = counted.pool->Allocate(bytes);
      if (!buffer.ok()) continue;
      if (!buffer->empty()) {
        buffer->data()[0] = buffer->data()[bytes - 1] = static_cast<std::byte>(bytes);
      }
      Buffer got;
      {
        MutexLock lock(exchange.mutex);
        exchange.buffers.push_back(*std::move(buffer));
        if (exchange.buffers.size() > 64) {
          std::swap(got, exchange.buffers[random() % exchange.buffers.size()]);
        }
      }
      if (!got.empty()) {
        const auto mark = static_cast<std::byte>(got.size());
        if (got.data()[0] != mark || got.data()[got.size() - 1] != mark) ++corrupt;
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 10; ++seed) threads.emplace_back(run, seed);  // more than shards
  for (std::thread& thread : threads) thread.join();
  CHECK(corrupt == 0);
  CHECK(counted.books->peak() <= options.max_bytes);
  const BufferPool::Stats stats = counted.pool->stats();
  CHECK(counted.books->mapped_bytes() == stats.leased_bytes + stats.cached_bytes);
  counted.pool.reset();
  std::thread half([&] {
    MutexLock lock(exchange.mutex);
    exchange.buffers.resize(exchange.buffers.size() / 2);
  });
  half.join();
  CHECK(counted.books->source_alive);
  {
    MutexLock lock(exchange.mutex);
    exchange.buffers.clear();
  }
  CHECK_FALSE(counted.books->source_alive);
  CHECK(counted.books->mapped_bytes() == 0);
}

// ---- sharing ----

TEST_CASE("memory that is shared is released by its last holder, and can be leased again") {
  BufferPool pool;
  for (int round = 0; round < 3; ++round) {
    Buffer first = *pool.Allocate(100);
    std::memcpy(first.data(), "bytes", 5);
    first.SetView(0, 5);
    Buffer second = first.Share();
    Buffer third = second.Share();
    CHECK(second.data() == first.data());
    CHECK(third.view() == "bytes");
    first.Reset();
    third.Reset();
    CHECK(second.view() == "bytes");
    CHECK(pool.stats().leased_bytes != 0);
    second.Reset();
    CHECK(pool.stats().leased_bytes == 0);
  }
  CHECK_FALSE(Buffer().Share());
}

TEST_CASE("holders on several threads release once") {
  std::atomic<int> releases{0};
  constexpr int kRounds = 2'000;
  for (int round = 0; round < kRounds; ++round) {
    std::array<Buffer, 2> of_threads;
    {
      const std::array<std::byte, 8> bytes{};
      const Buffer own = WrapBytes(
          bytes, [](void* counted) { ++*static_cast<std::atomic<int>*>(counted); }, &releases);
      for (Buffer& shared : of_threads) shared = own.Share();
    }
    std::atomic<int> ready{0};
    const auto drop = [&ready](Buffer& buffer) {
      ++ready;
      while (ready < 2) {
      }
      buffer.Reset();
    };
    std::thread other(drop, std::ref(of_threads[1]));
    drop(of_threads[0]);
    other.join();
    REQUIRE(releases == round + 1);
  }
}

}  // namespace
}  // namespace farcall
