// Builder: messages built in place in a pool's memory.

#include "farcall/rpc/builder.h"

#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "farcall/rpc/msg.h"
#include "farcall/tests/rpc/heap_count.h"
#include "probe.rpc.h"

namespace farcall::testing {
namespace {

using Pool = std::shared_ptr<BufferPool>;

Pool MakePool(size_t max_bytes = size_t{1} << 30) {
  return std::make_shared<BufferPool>(BufferPoolOptions{.name = "test", .max_bytes = max_bytes});
}

void FinishAsk(Builder<Ask>& builder, const std::string& action, size_t data_bytes) {
  const auto text = builder.CreateString(action);
  const auto data = builder.CreateVector(std::vector<uint8_t>(data_bytes, 7));
  builder.Finish(CreateAsk(builder, text, 42, data));
}

bool InSlot(const Buffer& body) {
  const std::byte* base = body.slot()->base;
  return body.data() >= base && body.data() + body.size() <= base + body.slot()->capacity;
}

bool IsAligned(const void* address, size_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

const Ask& Root(const Buffer& body) {
  REQUIRE(VerifyBody<Ask>(body, MessageLimits()).ok());
  return *flatbuffers::GetRoot<Ask>(body.data());
}

// ---- where the bytes are ----

TEST_CASE("a message stays where it was built: in one slot of the pool") {
  const Pool pool = MakePool();
  Builder<Ask> builder(pool, 0);
  CHECK(pool->stats().allocations == 0);  // nothing was built yet
  FinishAsk(builder, "in place", 100);
  const uint8_t* built_at = builder.GetBufferPointer();
  const size_t built_bytes = builder.GetSize();
  const absl::StatusOr<Buffer> body = builder.Release();
  REQUIRE(body.ok());
  CHECK(reinterpret_cast<const uint8_t*>(body->data()) == built_at);
  CHECK(body->size() == built_bytes);
  CHECK(InSlot(*body));
  CHECK(pool->stats().allocations == 1);
  CHECK(pool->stats().leased_bytes == body->slot()->capacity);
  CHECK(Root(*body).action()->str() == "in place");
}

TEST_CASE("a good hint saves every growth") {
  const Pool pool = MakePool();
  Builder<Ask> builder(pool, 100'300);
  FinishAsk(builder, "hinted", 100'000);
  const absl::StatusOr<Buffer> body = builder.Release();
  REQUIRE(body.ok());
  CHECK(pool->stats().allocations == 1);
  CHECK(Root(*body).data()->size() == 100'000);
}

TEST_CASE("a message that outgrows its slot is copied to a larger one and keeps its bytes") {
  const Pool pool = MakePool();
  for (const size_t bytes : {500, 512, 1000, 5000, 70'000, 3'000'000}) {
    Builder<Ask> builder(pool, 0);
    const uint64_t before = pool->stats().allocations;
    const auto text = builder.CreateString("first");
    std::vector<uint8_t> content(bytes);
    for (size_t i = 0; i < bytes; ++i) content[i] = static_cast<uint8_t>(i * 31);
    const auto data = builder.CreateVector(content);
    builder.Finish(CreateAsk(builder, text, 42, data));
    const absl::StatusOr<Buffer> body = builder.Release();
    REQUIRE(body.ok());
    CHECK(pool->stats().allocations > before + 1);
    CHECK(pool->stats().leased_bytes == body->slot()->capacity);  // the small one went back
    const Ask& ask = Root(*body);
    CHECK(ask.action()->str() == "first");
    CHECK(std::equal(ask.data()->begin(), ask.data()->end(), content.begin(), content.end()));
  }
  CHECK(pool->stats().leased_bytes == 0);
}

TEST_CASE("a finished message begins on a 64-byte border, so that it is read in place") {
  const Pool pool = MakePool();
  for (size_t bytes = 0; bytes < 1100; bytes += 7) {
    Builder<Ask> builder(pool, 0);
    FinishAsk(builder, std::string(bytes % 13, 'a'), bytes);
    const absl::StatusOr<Buffer> body = builder.Release();
    REQUIRE(body.ok());
    CHECK(IsAligned(body->data(), kBufferAlignment));
    CHECK(Root(*body).data()->size() == bytes);
  }
}

// A table that no schema declares.
struct TableOfOne : private flatbuffers::Table {
  struct NativeTableType {};
};

// A message whose root is a table of one vector, which `make` builds.
template <class Make>
Buffer WithVector(const Pool& pool, size_t before, Make&& make) {
  Builder<TableOfOne> builder(pool, 0);
  builder.CreateString(std::string(before, 's'));  // moves what follows
  const auto vector = make(builder);
  const auto start = builder.StartTable();
  builder.AddOffset(4, vector);
  builder.Finish(flatbuffers::Offset<TableOfOne>(builder.EndTable(start)));
  absl::StatusOr<Buffer> body = builder.Release();
  REQUIRE(body.ok());
  return *std::move(body);
}

template <class V>
const V* VectorOf(const Buffer& body) {
  return flatbuffers::GetRoot<flatbuffers::Table>(body.data())->GetPointer<const V*>(4);
}

TEST_CASE("vectors of doubles and vectors of a forced alignment lie where the CPU wants them") {
  const Pool pool = MakePool();
  constexpr size_t kForced = FLATBUFFERS_MAX_ALIGNMENT;
  for (size_t before = 0; before < 70; ++before) {
    const Buffer doubles = WithVector(pool, before, [](MessageBuilder& builder) {
      return builder.CreateVector(std::vector<double>(9, 0.5));
    });
    CHECK(IsAligned(doubles.data(), kBufferAlignment));
    const auto* numbers = VectorOf<flatbuffers::Vector<double>>(doubles);
    CHECK(IsAligned(numbers->data(), alignof(double)));
    CHECK(numbers->Get(8) == 0.5);

    const Buffer forced = WithVector(pool, before, [](MessageBuilder& builder) {
      builder.ForceVectorAlignment(100, 1, kForced);
      return builder.CreateVector(std::vector<uint8_t>(100, 3));
    });
    CHECK(IsAligned(forced.data(), kBufferAlignment));
    CHECK(IsAligned(VectorOf<flatbuffers::Vector<uint8_t>>(forced)->data(), kForced));
  }
}

// ---- moves ----

// Moves the builder to another place and frees the old one at once: whatever still points there is
// found by a sanitizer.
std::unique_ptr<Builder<Ask>> Moved(std::unique_ptr<Builder<Ask>> from) {
  return std::make_unique<Builder<Ask>>(std::move(*from));
}

TEST_CASE("a builder may be moved at any moment of building") {
  const Pool pool = MakePool();
  for (int moves = 0; moves < 256; ++moves) {
    auto may_move = [&, stage = 0](std::unique_ptr<Builder<Ask>>& builder) mutable {
      if ((moves >> stage++ & 1) != 0) builder = Moved(std::move(builder));
    };
    auto builder = std::make_unique<Builder<Ask>>(pool, 0);
    may_move(builder);
    const auto text = builder->CreateSharedString("shared");
    may_move(builder);
    for (int i = 0; i < 20; ++i) builder->CreateSharedString("string " + std::to_string(i));
    may_move(builder);
    CHECK(builder->CreateSharedString("shared").o == text.o);
    may_move(builder);
    const auto data = builder->CreateVector(std::vector<uint8_t>(3000, 7));  // grows
    may_move(builder);
    CHECK(builder->CreateSharedString("string 7").o < data.o);
    CHECK(builder->CreateSharedString("new").o > data.o);
    AskBuilder table(*builder);
    table.add_action(text);
    if ((moves & 32) == 0) table.add_data(data);
    const auto start = table.start_;
    may_move(builder);  // inside a table
    if ((moves & 32) != 0) builder->AddOffset(Ask::VT_DATA, data);
    const flatbuffers::Offset<Ask> root(builder->EndTable(start));
    may_move(builder);
    builder->Finish(root);
    may_move(builder);
    const absl::StatusOr<Buffer> body = builder->Release();
    REQUIRE(body.ok());
    CHECK(InSlot(*body));
    CHECK(Root(*body).action()->str() == "shared");
    CHECK(Root(*body).data()->size() == 3000);
    CHECK(pool->stats().leased_bytes == body->slot()->capacity);
  }
  CHECK(pool->stats().leased_bytes == 0);
}

TEST_CASE("a move takes the attachment and leaves an unfinished builder behind") {
  const Pool pool = MakePool();
  Builder<Ask> from(pool, 0);
  FinishAsk(from, "x", 1);
  from.Attach(*from.AllocateAttachment(100));
  Builder<Ask> to(std::move(from));
  CHECK(to.finished());
  CHECK_FALSE(from.finished());  // NOLINT(bugprone-use-after-move): that is the promise
  CHECK(from.Release().status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_FALSE(from.TakeAttachment());
  CHECK(to.Release().ok());
  CHECK(to.TakeAttachment().size() == 100);
}

TEST_CASE("a message built from the object API") {
  const Pool pool = MakePool();
  AskT native;
  native.action = std::string(2000, 'n');
  native.number = 9;
  Builder<Ask> builder(pool, 0);
  builder.Pack(native);
  const absl::StatusOr<Buffer> body = builder.Release();
  REQUIRE(body.ok());
  CHECK(Root(*body).action()->str() == native.action);
  CHECK(Root(*body).number() == 9);
}

// ---- what goes wrong ----

TEST_CASE("a message that is not finished cannot be released") {
  const Pool pool = MakePool();
  Builder<Ask> builder(pool, 0);
  CHECK(builder.Release().status().code() == absl::StatusCode::kFailedPrecondition);
  const auto text = builder.CreateString("x");
  CHECK(builder.Release().status().code() == absl::StatusCode::kFailedPrecondition);
  builder.Finish(CreateAsk(builder, text));
  CHECK(builder.Release().ok());
  CHECK(builder.Release().status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a cleared builder starts anew") {
  const Pool pool = MakePool();
  Builder<Ask> builder(pool, 0);
  FinishAsk(builder, "first", 10);
  builder.Clear();
  CHECK_FALSE(builder.finished());
  CHECK(builder.Release().status().code() == absl::StatusCode::kFailedPrecondition);
  FinishAsk(builder, "second", 20);
  const absl::StatusOr<Buffer> body = builder.Release();
  REQUIRE(body.ok());
  CHECK(Root(*body).action()->str() == "second");
  CHECK(pool->stats().allocations == 1);
}

TEST_CASE("a dry pool is reported by Release, wherever it ran dry, and nothing crashes") {
  for (const size_t max_bytes : {size_t{0}, size_t{512}, size_t{2048}, size_t{10'000}}) {
    const Pool pool = MakePool(max_bytes);
    {
      auto builder = std::make_unique<Builder<Ask>>(pool, 0);
      builder->CreateSharedString("before");
      builder = Moved(std::move(builder));
      FinishAsk(*builder, "x", 20'000);
      builder = Moved(std::move(builder));
      const absl::Status refused = builder->Release().status();
      CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
      CHECK(std::string(refused.message()).find("test pool") != std::string::npos);
      CHECK_FALSE(builder->AllocateAttachment(20'000).ok());
    }
    CHECK(pool->stats().leased_bytes == 0);
  }
}

TEST_CASE("leases go back however a builder ends") {
  const Pool pool = MakePool();
  for (const size_t bytes : {10, 5000}) {
    { Builder<Ask> untouched(pool, 0); }
    CHECK(pool->stats().leased_bytes == 0);
    {
      Builder<Ask> unfinished(pool, 0);
      unfinished.CreateVector(std::vector<uint8_t>(bytes));
    }
    CHECK(pool->stats().leased_bytes == 0);
    {
      Builder<Ask> finished(pool, 0);
      finished.Attach(*finished.AllocateAttachment(100));
      FinishAsk(finished, "x", bytes);
    }
    CHECK(pool->stats().leased_bytes == 0);
    {
      Builder<Ask> reset(pool, 0);
      FinishAsk(reset, "x", bytes);
      reset.Reset();
      CHECK(pool->stats().leased_bytes == 0);
    }
    {
      Builder<Ask> released(pool, 0);
      FinishAsk(released, "x", bytes);
      const absl::StatusOr<Buffer> body = released.Release();
      CHECK(body.ok());
    }
    CHECK(pool->stats().leased_bytes == 0);
  }
}

TEST_CASE("what was built outlives the pool's last handle") {
  Pool pool = MakePool();
  Builder<Ask> builder(pool, 0);
  pool.reset();
  FinishAsk(builder, "alive", 5000);
  absl::StatusOr<Buffer> body = builder.Release();
  { const Builder<Ask> gone(std::move(builder)); }
  REQUIRE(body.ok());
  CHECK(Root(*body).action()->str() == "alive");
}

// ---- cost ----

TEST_CASE("building costs no heap allocation in steady state") {
  const Pool pool = MakePool();
  const std::vector<uint8_t> content(10'000, 7);
  const auto build = [&](size_t bytes) {
    Builder<Ask> builder(pool, 0);
    const auto text = builder.CreateString("steady");
    const auto data = builder.CreateVector(content.data(), bytes);
    builder.Finish(CreateAsk(builder, text, 42, data));
    Builder<Ask> moved(std::move(builder));
    return moved.Release().ok();
  };
  for (const size_t bytes : {size_t{10}, size_t{300}, size_t{10'000}}) {
    for (int warm = 0; warm < 3; ++warm) REQUIRE(build(bytes));
    const uint64_t before = HeapAllocations();
    bool all = true;
    for (int i = 0; i < 1000; ++i) all = build(bytes) && all;
    const uint64_t after = HeapAllocations();
    CHECK(all);
    CHECK(after - before == 0);
  }
}

// ---- anything ----

TEST_CASE("random messages read back as they were written") {
  constexpr uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  const Pool pool = MakePool();
  for (int round = 0; round < 500; ++round) {
    CAPTURE(kSeed, round);
    auto builder = std::make_unique<Builder<Ask>>(pool, random() % 3000);
    const std::string action(random() % 300, 'a');
    const std::vector<uint8_t> content(random() % 5000, static_cast<uint8_t>(round));
    const auto text = builder->CreateSharedString(action);
    if (random() % 2 == 0) builder = Moved(std::move(builder));
    const auto data = builder->CreateVector(content);
    const uint64_t number = random();
    builder->Finish(CreateAsk(*builder, text, number, data));
    const absl::StatusOr<Buffer> body = builder->Release();
    REQUIRE(body.ok());
    CHECK(IsAligned(body->data(), kBufferAlignment));
    const Ask& ask = Root(*body);
    CHECK(ask.action()->str() == action);
    CHECK(ask.number() == number);
    CHECK(std::equal(ask.data()->begin(), ask.data()->end(), content.begin(), content.end()));
  }
  CHECK(pool->stats().leased_bytes == 0);
}

}  // namespace
}  // namespace farcall::testing
