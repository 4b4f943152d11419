// What happens between two steps of the software NIC: while it copies, between two looks at a
// number, and right before the end.

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <thread>

#include "farcall/tests/transports/rdma/softnic_liar.h"

namespace farcall::softnic::testing {
namespace {

using namespace rdma;
using rdma::testing::End;
using rdma::testing::Pair;

// As REQUIRE, where that cannot be.
void Must(bool holds) {
  if (!holds) std::abort();
}

// Runs `then`, once, when somebody writes to the page at `page`.
class WriteTrap {
 public:
  WriteTrap(std::byte* page, std::function<void()> then) : page_(page), then_(std::move(then)) {
    trap = this;
    struct sigaction action {};
    action.sa_handler = [](int) { trap->Spring(); };
    Must(::sigaction(SIGSEGV, &action, &before_) == 0);
    Must(::mprotect(page_, Bytes(), PROT_READ) == 0);
  }
  ~WriteTrap() {
    ::mprotect(page_, Bytes(), PROT_READ | PROT_WRITE);
    ::sigaction(SIGSEGV, &before_, nullptr);
    trap = nullptr;
  }
  WriteTrap(const WriteTrap&) = delete;
  WriteTrap& operator=(const WriteTrap&) = delete;

  bool sprung() const { return sprung_; }

 private:
  static size_t Bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }
  // On the thread that writes, in the middle of it: no more than a call.
  void Spring() {
    Must(!std::exchange(sprung_, true));  // another fault is one
    Must(::mprotect(page_, Bytes(), PROT_READ | PROT_WRITE) == 0);
    then_();
  }

  static inline WriteTrap* trap = nullptr;
  std::byte* const page_;
  const std::function<void()> then_;
  struct sigaction before_ {};
  bool sprung_ = false;
};

TEST_CASE("a READ whose key goes while it is copied fails") {
  const bool goes = GENERATE(true, false);
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  Pair pair(*device, "moment");
  const std::unique_ptr<MemoryWindow> window = *pair.passive.domain->AllocateWindow();
  SendRequest bind;
  bind.opcode = Opcode::kBind;
  bind.window = window.get();
  bind.region = pair.passive.region.get();
  bind.bind_address = pair.passive.address();
  bind.bind_length = 65'536;
  const uint32_t rkey = window->next_rkey();
  REQUIRE(pair.passive.Post(bind).ok());
  REQUIRE(pair.passive.NextCompletion(pair.active).status == CompletionStatus::kSuccess);
  SendRequest invalidate;
  invalidate.opcode = Opcode::kLocalInvalidate;
  invalidate.rkey = rkey;

  constexpr size_t kSink = 65'536;
  const WriteTrap trap(pair.active.memory(kSink + 8192), [&] {
    if (!goes) return;
    size_t posted = 0;
    Must(pair.passive.pair->PostSend(std::span(&invalidate, 1), posted).ok());
    std::memset(pair.passive.memory(), 0xee, 65'536);  // what the owner may do from then on
  });
  pair.active.Read(7, kSink, 65'536, pair.passive.address(), rkey);
  const Completion read = pair.active.NextCompletion(pair.active);
  CHECK(trap.sprung());
  CHECK(read.wr_id == 7);
  CHECK(read.status == (goes ? CompletionStatus::kRemoteAccessError : CompletionStatus::kSuccess));
}

// The peer rewrites the length of a message all the time, always to one that is right. Whatever is
// taken for it: so many bytes are written, from where so many lie.
TEST_CASE("the length of a message is looked at once") {
  // Until the rewriter was there for so many.
  constexpr uint32_t kRewritten = kSanitized ? 1000 : 10'000, kMost = 1'000'000;
  constexpr uint32_t kLengths[] = {8, 100, 240, 241, 1000, 4000};
  constexpr std::byte kInSlots{0x11}, kInArena{0x22}, kNothing{0x33};
  Stage stage;
  stage.Connect();
  const OwnSegment view = stage.liar.view();
  for (uint32_t i = 0; i < kGeometry.slots; ++i) {
    std::memset(view.slot(i).payload, static_cast<int>(kInSlots), kSlotPayloadBytes);
  }
  std::memset(view.arena(0), static_cast<int>(kInArena), kGeometry.arena_bytes);
  std::atomic<uint32_t> next{0};
  std::atomic<bool> stop{false};
  std::thread rewriter([&] {
    for (uint32_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      view.slot(next.load(std::memory_order_relaxed))
          .bytes.store(kLengths[i % std::size(kLengths)], std::memory_order_relaxed);
    }
  });
  End& victim = stage.victim;
  uint32_t wrong = 0, rewritten = 0;
  for (uint32_t number = 0; number < kMost && rewritten < kRewritten && wrong == 0; ++number) {
    std::memset(victim.memory(), static_cast<int>(kNothing), 4096);
    next.store(number, std::memory_order_relaxed);
    view.slot(number).bytes.store(8);
    for (int spin = static_cast<int>(number % 64); spin != 0; --spin) asm volatile("");
    view.slot(number).sequence.store(number + 1);
    const Completion done = victim.NextCompletion(victim);
    Must(done.status == CompletionStatus::kSuccess);
    rewritten += done.bytes != 8 ? 1 : 0;
    const std::byte filled = done.bytes <= kSlotPayloadBytes ? kInSlots : kInArena;
    for (uint32_t i = 0; i < 4096; ++i) {
      wrong += *victim.memory(i) != (i < done.bytes ? filled : kNothing) ? 1 : 0;
    }
    victim.Receive(done.wr_id, 0, 4096);
  }
  stop = true;
  rewriter.join();
  CHECK(wrong == 0);
}

TEST_CASE("what was sent before the end is delivered, though the end is heard first") {
  const bool goodbye = GENERATE(true, false);
  const bool heard_by_queue = GENERATE(true, false);
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  Pair pair(*device, "moment");
  for (uint64_t i = 0; i < 4; ++i) pair.passive.Receive(i, i * 64, 64);
  pair.active.Fill(0, 64, 3);
  for (uint64_t i = 0; i < 3; ++i) pair.active.Send(i, 0, 64);
  if (goodbye) {
    pair.active.id->Disconnect();
  } else {
    pair.active.pair.reset();
    pair.active.id.reset();
  }
  if (heard_by_queue) {
    for (int i = 0; i < 4; ++i) pair.passive.queue->Drain();
  }
  std::optional<ConnectionEvent> event;
  for (int i = 0; i < 1000 && !event.has_value(); ++i) event = pair.passive.channel->Next();
  REQUIRE(event.has_value());
  CHECK(event->kind == ConnectionEvent::Kind::kDisconnected);
  CHECK(pair.passive.pair->state() == QueuePairState::kError);
  for (uint64_t i = 0; i < 4; ++i) {
    const Completion done = pair.passive.NextCompletion(pair.passive);
    CHECK(done.wr_id == i);
    CHECK(done.status == (i < 3 ? CompletionStatus::kSuccess : CompletionStatus::kFlushed));
    if (i < 3) CHECK(pair.passive.Holds(i * 64, 64, 3));
  }
}

}  // namespace
}  // namespace farcall::softnic::testing
