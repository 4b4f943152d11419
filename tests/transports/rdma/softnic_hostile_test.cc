// A peer that lies may lose its own connection and nothing else.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "farcall/tests/transports/rdma/softnic_liar.h"

namespace farcall::softnic::testing {
namespace {

using namespace rdma;
TEST_CASE("an honest message of a hand-made peer is received") {
  Stage stage;
  stage.Connect();
  std::memset(stage.liar.view().slot(0).payload, 5, 100);
  stage.liar.Show(0, 100);
  CHECK(stage.victim.NextCompletion(stage.victim).bytes == 100);
  CHECK(*stage.victim.memory(99) == std::byte{5});
}

TEST_CASE("a message that is longer than its ring throws the peer out") {
  const uint32_t bytes = GENERATE(kGeometry.max_message() + 1, 1U << 31, UINT32_MAX);
  Stage stage;
  stage.Connect();
  stage.liar.Show(0, bytes);
  stage.CheckThrownOut();
}

TEST_CASE("a message that is longer than the receive fails, in the ring or not") {
  const uint32_t bytes = GENERATE(4097U, kGeometry.max_message());
  Stage stage;
  stage.Connect();
  stage.liar.Show(0, bytes);
  CHECK(stage.victim.NextCompletion(stage.victim).status == CompletionStatus::kLocalLengthError);
}

TEST_CASE("a doorbell is heard though a Poll finds it beside an announcement") {
  Stage stage;
  stage.Connect();
  CompletionQueue& queue = *stage.victim.queue;
  std::vector<Completion> completions(8);
  do {
    queue.Drain();
  } while (!queue.Arm() || queue.Poll(completions) != 0);
  const OwnMemory slab = Memory(4096);
  stage.liar.Announce(5, 4096, slab.fd());
  SendPacket(stage.liar.socket.get(), PacketKind::kDoorbell);
  // Announcements are looked for now and then: whichever Poll is the last before a sleep.
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(queue.Poll(completions) == 0);
    pollfd sleeper{.fd = queue.fd(), .events = POLLIN, .revents = 0};
    REQUIRE(::poll(&sleeper, 1, 0) == 1);
  }
}

TEST_CASE("memory for which no descriptor is free ends the connection, and says so") {
  Stage stage;
  stage.Connect();
  const OwnMemory slab = Memory(4096);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int free = ::dup(STDERR_FILENO);
  ::close(free);
  stage.liar.Announce(5, 4096, slab.fd());
  const rlimit none{.rlim_cur = static_cast<rlim_t>(free), .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const ConnectionEvent end = stage.victim.NextEvent(stage.victim);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(end.kind == ConnectionEvent::Kind::kDisconnected);
  CHECK_THAT(std::string(end.status.message()), Catch::Matchers::Contains("ulimit -n"));
  stage.CheckHonest();
}

TEST_CASE("who took more than was sent is thrown out") {
  Stage stage;
  stage.Connect();
  SECTION("said in a message") { stage.liar.Show(0, 8, 1); }
  SECTION("said in the header") {
    stage.victim.Send(1, 0, 8);
    stage.liar.view().header().taken.store(2);
  }
  SECTION("far more") {
    stage.victim.Send(1, 0, 8);
    stage.liar.view().header().taken.store(0x7fffffff);
  }
  SECTION("refused for a reason that is none") {
    stage.victim.Send(1, 0, 8);
    stage.liar.view().header().taken.store(uint64_t{200} << 32);
  }
  stage.CheckThrownOut();
}

TEST_CASE("packets that are none throw the peer out") {
  Stage stage;
  stage.Connect();
  SECTION("an unknown kind") { SendPacket(stage.liar.socket.get(), PacketKind{77}); }
  SECTION("a handshake again") { stage.liar.Connect(Liar::Request()); }
  SECTION("too short") {
    const std::byte byte{1};
    SendPacket(stage.liar.socket.get(), std::span(&byte, 1));
  }
  SECTION("memory without memory") { SendPacket(stage.liar.socket.get(), PacketKind::kSlabs); }
  SECTION("memory that goes and never came") {
    SlabsPacket packet;
    packet.kind = PacketKind::kSlabGone;
    SendPacket(stage.liar.socket.get(), BytesOf(packet).first(SlabsPacket::Bytes(1)));
  }
  SECTION("a count that is too large") {
    SlabsPacket packet;
    packet.count = UINT32_MAX;
    SendPacket(stage.liar.socket.get(), BytesOf(packet));
  }
  for (int i = 0; i < 1000; ++i) {
    stage.victim.queue->Drain();
    stage.victim.Turn();
  }
  stage.CheckThrownOut();
}

TEST_CASE("memory that could vanish, or is not what was said, is never mapped") {
  Stage stage;
  stage.Connect();
  SECTION("not sealed") {
    const FileDescriptor fd(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(fd.get(), 8192) == 0);
    stage.liar.Announce(5, 8192, fd.get());
  }
  SECTION("a file") {
    const FileDescriptor fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    stage.liar.Announce(5, 4096, fd.get());
  }
  SECTION("smaller than said") { stage.liar.Announce(5, 8192, Memory(4096).fd()); }
  SECTION("more than is mapped for one") {
    stage.liar.Announce(5, (uint64_t{1} << 30) + 4096, Memory((size_t{1} << 30) + 4096).fd());
  }
  SECTION("the same twice") {
    const OwnMemory memory = Memory(4096);
    stage.liar.Announce(5, 4096, memory.fd());
    stage.liar.Announce(5, 4096, memory.fd());
  }
  for (int i = 0; i < 1000; ++i) stage.victim.Turn();
  stage.CheckThrownOut();
}

TEST_CASE("keys that lie about memory are refused, one READ each") {
  Stage stage;
  stage.Connect();
  const OwnMemory slab = Memory(8192);
  stage.liar.Announce(5, 8192, slab.fd());
  constexpr uint32_t kKey = 3 << 16 | 1;
  uint64_t address = 0x10000;
  uint32_t bytes = 4096;
  SECTION("beyond the slab") { stage.liar.Offer(3, 5, address, 8192, 4096); }
  SECTION("over the slab's end") { stage.liar.Offer(3, 5, address, 4097, 4096); }
  SECTION("an offset that wraps") { stage.liar.Offer(3, 5, address, UINT64_MAX - 100, 4096); }
  SECTION("a length that wraps") {
    stage.liar.Offer(3, 5, address, 0, UINT64_MAX);
    bytes = 16384;
  }
  SECTION("an address that wraps") {
    stage.liar.Offer(3, 5, UINT64_MAX - 10, 0, UINT64_MAX);
    address = UINT64_MAX - 8;
    bytes = 64;
  }
  SECTION("no such slab") { stage.liar.Offer(3, 6, address, 0, 4096); }
  CHECK(stage.StatusOfRead(address, kKey, bytes) == CompletionStatus::kRemoteAccessError);
  stage.CheckHonest();
}

TEST_CASE("an honest offer of a hand-made peer is read, and not once it is taken back") {
  Stage stage;
  stage.Connect();
  const OwnMemory slab = Memory(8192);
  std::memset(slab.base(), 9, 8192);
  stage.liar.Announce(5, 8192, slab.fd());
  stage.liar.Offer(3, 5, 0x10000, 0, 8192);
  CHECK(stage.StatusOfRead(0x10000 + 4096, 3 << 16 | 1, 4096) == CompletionStatus::kSuccess);
  CHECK(*stage.victim.memory(8192) == std::byte{9});
  stage.liar.key(3).key.store(0);
  CHECK(stage.StatusOfRead(0x10000, 3 << 16 | 1, 4096) == CompletionStatus::kRemoteAccessError);
}

TEST_CASE("a read whose memory comes with the peer's goodbye is flushed, once, and takes nothing") {
  Stage stage;
  stage.Connect();
  const OwnMemory slab = Memory(8192);
  std::memset(slab.base(), 9, 8192);
  stage.liar.Offer(3, 5, 0x10000, 0, 8192);
  stage.victim.Read(99, 8192, 64, 0x10000, 3 << 16 | 1);
  stage.liar.Announce(5, 8192, slab.fd());
  REQUIRE(SendPacket(stage.liar.socket.get(), PacketKind::kBye) == 0);
  stage.CheckThrownOut();
  size_t reads = 0;
  for (const Completion& completion : stage.victim.completions) {
    if (completion.wr_id != 99) continue;
    ++reads;
    CHECK(completion.status == CompletionStatus::kFlushed);
  }
  CHECK(reads == 1);
  CHECK(*stage.victim.memory(8192) == std::byte{0});
}

TEST_CASE("a handshake that asks for the impossible gets no answer, and no request is seen") {
  Stage stage;
  ConnectPacket packet = Liar::Request();
  SECTION("no slots") { packet.slots = 0; }
  SECTION("slots that are no power of two") { packet.slots = 17; }
  SECTION("too many slots") { packet.slots = kMaxQueueDepth * 2; }
  SECTION("too large an arena") { packet.arena_bytes = 1U << 31; }
  SECTION("too small an arena") { packet.arena_bytes = 64; }
  SECTION("no keys") { packet.keys = 0; }
  SECTION("too many keys") { packet.keys = kMaxKeys + 1; }
  SECTION("another version") { packet.version = 2; }
  SECTION("private data beyond its place") { packet.private_bytes = kMaxPrivateData + 1; }
  stage.liar.Connect(packet);
  for (int i = 0; i < 100; ++i) stage.victim.Turn();
  CHECK(stage.victim.events.empty());
  Packet answer;
  CHECK(ReceivePacket(stage.liar.socket.get(), answer) == Received::kEnd);
  stage.CheckHonest();
}

TEST_CASE("a segment that is smaller than said is refused by Accept") {
  Stage stage;
  ConnectPacket packet = Liar::Request();
  packet.slots = 8192;
  stage.liar.Connect(packet);
  ConnectionEvent request = stage.victim.NextEvent(stage.victim);
  stage.victim.MakePair(std::move(request.request));
  CHECK(stage.victim.id->Accept({}).code() == absl::StatusCode::kPermissionDenied);
  stage.CheckHonest();
}

TEST_CASE("sockets that never say what they want are bounded") {
  Stage stage;
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 300; ++i) {
    absl::StatusOr<FileDescriptor> socket = ConnectTo(*SocketPath(stage.folder.path(), "victim"));
    REQUIRE(socket.ok());
    silent.push_back(*std::move(socket));
    stage.victim.Turn();
  }
  size_t dropped = 0;
  Packet packet;
  for (const FileDescriptor& socket : silent) {
    dropped += ReceivePacket(socket.get(), packet) == Received::kEnd ? 1 : 0;
  }
  CHECK(dropped >= 300 - kMaxPendingHandshakes);
  stage.CheckHonest();
}

TEST_CASE("a peer that scribbles over all that it may write harms itself alone") {
  const uint32_t seed = GENERATE(range(1U, 9U));
  INFO("seed=" << seed);
  std::mt19937 random(seed);
  const auto dice = [&](uint32_t sides) { return static_cast<uint32_t>(random() % sides); };
  Stage stage;
  stage.Connect();
  const OwnMemory slab = Memory(65'536);
  stage.liar.Announce(5, 65'536, slab.fd());
  for (size_t i = 1; i < kKeys; ++i) stage.liar.Offer(i, 5, 0x10000, 0, 65'536);
  const auto scribble = [&](const OwnMemory& memory, size_t most) {
    for (uint32_t n = dice(16); n != 0; --n) {
      const size_t at = dice(static_cast<uint32_t>(std::min(most, memory.size()) / 4));
      const uint32_t value = dice(4) == 0 ? dice(UINT32_MAX) : dice(300);
      std::memcpy(memory.base() + at * 4, &value, sizeof value);
    }
  };
  for (int i = 0; i < 20'000 && stage.victim.events.empty(); ++i) {
    scribble(stage.liar.segment, dice(4) == 0 ? kGeometry.bytes() : 4096 + 128);
    scribble(stage.liar.keys, 4096);
    // Now and then what makes it go on.
    if (dice(2) == 0) stage.liar.view().slot(dice(16)).sequence.store(dice(32));
    if (stage.victim.pair->state() == QueuePairState::kReadyToSend) {
      SendRequest request;
      request.sge_count = 1;
      request.sges[0] = stage.victim.At(0, dice(2000));
      [[maybe_unused]] absl::Status posted = stage.victim.Post(request);
      request.opcode = Opcode::kRead;
      request.remote_address = 0x10000;
      request.rkey = dice(kKeys) << 16 | 1;
      posted = stage.victim.Post(request);
    }
    stage.victim.Turn();
    stage.victim.completions.clear();
  }
  stage.CheckHonest();
}

}  // namespace
}  // namespace farcall::softnic::testing
