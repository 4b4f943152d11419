// What a peer can see and do while it is at it: memory that it rewrites while it is read, and all
// the memory that it was ever given.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "farcall/tests/transports/rdma/softnic_liar.h"

namespace farcall::softnic::testing {
namespace {

using namespace rdma;
using rdma::testing::End;

// Where the victim's traffic goes; what lies between must never change.
constexpr size_t kReceiveBytes = 4096;
constexpr size_t kSink = 16'384;
constexpr uint32_t kSinkBytes = 4096;

// Rewrites every number that the victim looks at, as fast as it can, each to what is right and to
// what is not.
void Rewrite(const Liar& liar, uint32_t seed, const std::atomic<bool>& stop) {
  std::minstd_rand random(seed);
  const auto one_of = [&](auto... values) {
    const uint64_t list[] = {static_cast<uint64_t>(values)...};
    return list[random() % std::size(list)];
  };
  while (!stop.load(std::memory_order_relaxed)) {
    for (uint32_t i = 0; i < kGeometry.slots; ++i) {
      Slot& slot = liar.view().slot(i);
      slot.bytes.store(static_cast<uint32_t>(one_of(8, 240, 241, kReceiveBytes)));
      slot.sequence.store(i + 1 + kGeometry.slots * static_cast<uint32_t>(random() % 4));
      if (random() % 64 == 0) {
        slot.bytes.store(static_cast<uint32_t>(
            one_of(kReceiveBytes + 1, kGeometry.max_message() + 1, UINT32_MAX)));
      }
    }
    RemoteKey& key = liar.key(3);
    key.offset.store(one_of(0, 4096, 61'440, 61'441, 65'536, UINT64_MAX - 100));
    key.bytes.store(one_of(4096, 65'536, UINT64_MAX));
    key.address.store(one_of(0x10000, 0x10001, 0));
    key.slab.store(static_cast<uint32_t>(one_of(5, 5, 5, 6)));
    key.key.store(static_cast<uint32_t>(one_of(3 << 16 | 1, 3 << 16 | 1, 3 << 16 | 2)));
  }
}

bool Untouched(const End& end, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) {
    if (*end.memory(i) != std::byte{0}) return false;
  }
  return true;
}

TEST_CASE("what is rewritten between check and use is used as it was checked") {
  const uint32_t seed = GENERATE(range(1U, 25U));
  INFO("seed=" << seed);
  Stage stage;
  stage.Connect();
  const OwnMemory slab = Memory(65'536);
  std::memset(slab.base(), 9, 65'536);
  stage.liar.Announce(5, 65'536, slab.fd());
  stage.liar.Offer(3, 5, 0x10000, 0, 65'536);
  std::atomic<bool> stop{false};
  std::thread rewriter([&] { Rewrite(stage.liar, seed, stop); });
  End& victim = stage.victim;
  size_t reads = 0;
  for (int i = 0; i < 3000 && victim.events.empty(); ++i) {
    SendRequest read;
    read.wr_id = 100;
    read.opcode = Opcode::kRead;
    read.sge_count = 1;
    read.sges[0] = victim.At(kSink, kSinkBytes);
    read.remote_address = 0x10000;
    read.rkey = 3 << 16 | 1;
    // A READ of a key that is not there at the moment ends the connection: not all rounds do it.
    if (seed % 2 == 0) [[maybe_unused]]
      const absl::Status posted = victim.Post(read);
    victim.Turn();
    for (; !victim.completions.empty(); victim.completions.pop_front()) {
      const Completion& done = victim.completions.front();
      if (done.status != CompletionStatus::kSuccess) continue;
      if (done.wr_id == 100) {
        ++reads;
        continue;
      }
      CHECK(done.bytes <= kReceiveBytes);
      victim.Receive(done.wr_id, 0, kReceiveBytes);
    }
    if (victim.pair->state() == QueuePairState::kError) break;
  }
  stop.store(true);
  rewriter.join();
  CHECK(Untouched(victim, kReceiveBytes, kSink));
  CHECK(Untouched(victim, kSink + kSinkBytes, victim.options.memory));
  if (reads != 0) CHECK(*victim.memory(kSink) == std::byte{9});
  stage.CheckHonest();
}

// Everything that came over the socket: whole files, whatever part of them was meant.
std::vector<FileDescriptor> Loot(const Liar& liar) {
  std::vector<FileDescriptor> all;
  Packet packet;
  while (ReceivePacket(liar.socket.get(), packet) == Received::kPacket) {
    for (FileDescriptor& descriptor : packet.descriptors) all.push_back(std::move(descriptor));
  }
  return all;
}

size_t SizeOf(const FileDescriptor& fd) {
  struct stat file {};
  REQUIRE(::fstat(fd.get(), &file) == 0);
  return static_cast<size_t>(file.st_size);
}

size_t HowOften(std::string_view needle, const std::vector<FileDescriptor>& loot) {
  size_t count = 0;
  for (const FileDescriptor& fd : loot) {
    const size_t bytes = SizeOf(fd);
    void* const base = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    REQUIRE(base != MAP_FAILED);
    const std::string_view text(static_cast<const char*>(base), bytes);
    for (size_t at = text.find(needle); at != text.npos; at = text.find(needle, at + 1)) ++count;
    ::munmap(base, bytes);
  }
  return count;
}

TEST_CASE("a peer that scans all that it was given finds no byte of another connection") {
  constexpr std::string_view kSecret = "not for the neighbour";
  constexpr std::string_view kMeant = "for this peer, to be read";
  Stage stage;
  // Secrets in everything that the honest connection has: memory that its peer may read, messages
  // in both directions, short and long.
  const auto fill = [](std::byte* to, size_t bytes, std::string_view text) {
    for (size_t at = 0; at + text.size() <= bytes; at += text.size()) {
      std::memcpy(to + at, text.data(), text.size());
    }
  };
  for (End* end : {&stage.honest.active, &stage.honest.passive}) {
    fill(end->memory(), end->options.memory, kSecret);
  }
  const auto talk = [&] {
    for (const uint32_t bytes : {64U, 240U, 8192U}) {
      stage.honest.passive.Receive(1, 0, bytes);
      stage.honest.active.Receive(1, 0, bytes);
      stage.honest.active.Send(1, 0, bytes);
      stage.honest.passive.Send(1, 0, bytes);
      for (int i = 0; i < 2; ++i) {
        stage.honest.active.NextCompletion(stage.honest.passive);
        stage.honest.passive.NextCompletion(stage.honest.active);
      }
    }
  };
  talk();
  stage.Connect();
  fill(stage.victim.memory(), 4096, kMeant);
  talk();
  // What goes comes back as something else's memory, perhaps.
  stage.honest.active.region.reset();
  const auto later = *stage.victim.domain->Allocate(size_t{1} << 20, {.remote_read = true});
  const std::vector<FileDescriptor> loot = Loot(stage.liar);
  CHECK(loot.size() == 4);  // ring, keys, the memory of before and that of later
  CHECK(HowOften(kMeant, loot) > 0);
  CHECK(HowOften(kSecret.substr(0, 12), loot) == 0);
  for (const FileDescriptor& fd : loot) {
    const size_t bytes = SizeOf(fd);
    CHECK(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0) == MAP_FAILED);
    CHECK(::pwrite(fd.get(), "x", 1, 0) < 0);
    CHECK(::ftruncate(fd.get(), 0) != 0);
    const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
    const FileDescriptor again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    CHECK(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0) == MAP_FAILED);
    CHECK(::pwrite(again.get(), "x", 1, 0) < 0);
  }
}

}  // namespace
}  // namespace farcall::softnic::testing
