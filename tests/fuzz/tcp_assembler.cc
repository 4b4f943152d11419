// A TCP peer's bytes through the assembler, in any pieces: prefixes, heads, chunks, aborts.

#include <set>

#include "farcall/tests/fuzz/target.h"
#include "farcall/tests/fuzz/tcp_judge.h"
#include "farcall/tests/fuzz/tcp_stream.h"
#include "farcall/transports/tcp/assembler.h"

namespace farcall::fuzz {
namespace {

using tcp::Assembler;

// Small enough that the larger announcements do not fit.
constexpr size_t kPoolBytes = size_t{8} << 20;

BufferPool& Pool() {
  static auto* pool = new BufferPool({.name = "fuzz", .max_bytes = kPoolBytes});
  return *pool;
}

class Feed final : private tcp::AssemblerEvents {
 public:
  Feed(const Told& told, Dice& dice)
      : told_(told),
        dice_(dice),
        judge_(
            told, dice, pool_, [this](Ticket ticket) { Abandon(ticket); }, [this] { Stop(); }) {}

  void Give(std::string_view stream) {
    absl::Status status;
    while (!stream.empty() && status.ok() && !stopped_) {
      assembler_.Attach(scratch_);
      for (size_t receives = dice_.Next() % 4 + 1; receives > 0 && !stream.empty(); --receives) {
        status = Receive(stream);
        if (!status.ok() || stopped_) break;
      }
      assembler_.Detach();
      if (!stopped_ && status.ok()) judge_.CheckMemory();
    }
    if (!stopped_) {
      FUZZ_CHECK(status.ok() != told_.violated);
      judge_.CheckComplete();
      if (status.ok()) FUZZ_CHECK(assembler_.Position().empty() == told_.at_rest);
    }
    assembler_.Stop();
    judge_.DropHeld();
    FUZZ_CHECK(pool_.stats().leased_bytes == 0);
  }

 private:
  absl::Status Receive(std::string_view& stream) {
    const Assembler::Regions regions = assembler_.Want();
    FUZZ_CHECK(regions.bytes > 0 && regions.count <= Assembler::kMaxRegions);
    size_t piece = std::min({regions.bytes, stream.size(), PieceSize()});
    const size_t given = piece;
    for (size_t i = 0; i < regions.count; ++i) {
      const size_t part = std::min(piece, regions.region[i].iov_len);
      std::memcpy(regions.region[i].iov_base, stream.data(), part);
      stream.remove_prefix(part);
      piece -= part;
    }
    return assembler_.Received(given);
  }

  size_t PieceSize() {
    constexpr size_t kSizes[] = {SIZE_MAX, 1, 7, 24, 100, 4097, 30000, SIZE_MAX};
    constexpr int kManyPieces = 2000;  // more of them take long and find nothing
    return ++pieces_ > kManyPieces ? SIZE_MAX : kSizes[dice_.Next() % 8];
  }

  void Abandon(Ticket ticket) {
    const bool live = judge_.StateOf(ticket) == Judge::State::kLive && !stopped_;
    FUZZ_CHECK(assembler_.Abandon(ticket) == live);
    if (live) judge_.SetAbandoned(ticket);
  }
  void Stop() {
    stopped_ = true;
    assembler_.Stop();
  }

  Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) override {
    FUZZ_CHECK(!stopped_);
    return judge_.Admit(ticket, head, sizes);
  }
  void OnMessage(Ticket ticket, Message&& message) override {
    FUZZ_CHECK(!stopped_);
    judge_.OnMessage(ticket, std::move(message));
  }
  void OnAbandoned(Ticket ticket, absl::Status status) override {
    FUZZ_CHECK(!stopped_);
    judge_.OnLost(ticket, status);
  }
  void SendAbandon(uint32_t transfer) override { FUZZ_CHECK(unwanted_.insert(transfer).second); }
  void DropAbandon(uint32_t transfer) override { FUZZ_CHECK(unwanted_.erase(transfer) == 1); }
  absl::Status OnPeerAbandon(uint32_t transfer) override {
    FUZZ_CHECK(peer_abandons_ < told_.abandoned.size() &&
               told_.abandoned[peer_abandons_] == transfer);
    ++peer_abandons_;
    return absl::OkStatus();
  }

  const Told& told_;
  Dice& dice_;
  BufferPool& pool_ = Pool();
  std::vector<std::byte> scratch_ = std::vector<std::byte>(tcp::kReadBufferBytes);
  Judge judge_;
  Assembler assembler_{*this, pool_};
  std::set<uint32_t> unwanted_;  // transfers that the peer shall stop
  size_t peer_abandons_ = 0;
  int pieces_ = 0;
  bool stopped_ = false;
};

}  // namespace

std::vector<std::string> Seeds() { return StreamSeeds(); }

void Run(Input input) {
  Dice dice(input);
  const std::string stream = WriteStream(input);
  const Told told = ReadStream(stream);
  Feed(told, dice).Give(stream);
}

}  // namespace farcall::fuzz
