// Who may read what, at the engine: a client that asks its device for memory gets what was offered
// to it, while it is offered; and one that maps and scans all that it was given finds nothing of
// another connection.

#include <sys/mman.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "farcall/rpc/bytes.h"
#include "farcall/tests/transports/rdma/rogue.h"
#include "farcall/tests/transports/rdma/softnic_liar.h"

namespace farcall::testing {
namespace {

using rdma::CompletionStatus;
using rdma::Envelope;
using rdma::Kind;

constexpr uint32_t kBytes = 60'000;  // one READ, of any device

Message Filled(Peer& peer, size_t bytes, char fill) {
  Message message;
  message.head.Resize(0);
  message.body = peer.pool()->Allocate(bytes).value();
  std::memset(message.body.data(), fill, bytes);
  return message;
}

bool IsAll(std::span<const std::byte> bytes, char what) {
  for (const std::byte byte : bytes) {
    if (byte != static_cast<std::byte>(what)) return false;
  }
  return true;
}

uint64_t AddressOf(const Buffer& buffer) { return reinterpret_cast<uintptr_t>(buffer.data()); }

// The engine's server and, against it, clients by hand.
struct Reading {
  explicit Reading(ShmOptions options = {}) : scene(options) {}

  struct Connected {
    std::unique_ptr<Rogue> rogue;
    Peer& victim;
    Envelope offer;
  };
  // A new connection to which `fill` is offered.
  Connected Offered(char fill) {
    auto rogue = std::make_unique<Rogue>(scene.arena);
    Peer& victim = Meet(scene.arena, scene.client, *rogue);
    victim.Send(Filled(victim, kBytes, fill), 1);
    const Envelope offer = rogue->Hear(Kind::kRts);
    return {std::move(rogue), victim, offer};
  }

  Scene scene;
};

CompletionStatus ReadOf(Rogue& rogue, const Envelope& offer) {
  return rogue.Read(offer.body.address, offer.body.rkey, static_cast<uint32_t>(offer.sizes.body));
}

TEST_CASE("what is offered can be read, again and in parts, until its FIN") {
  ShmOptions options;
  options.device.windows = GENERATE(true, false);
  Reading reading(options);
  auto [rogue, victim, offer] = reading.Offered('a');
  CHECK(ReadOf(*rogue, offer) == CompletionStatus::kSuccess);
  CHECK(IsAll(rogue->loot(kBytes), 'a'));
  CHECK(rogue->Read(offer.body.address + kBytes - 1, offer.body.rkey, 1) ==
        CompletionStatus::kSuccess);
  CHECK(rogue->Read(offer.body.address, offer.body.rkey, 1) == CompletionStatus::kSuccess);
  rogue->Say({.kind = Kind::kFin, .transfer = offer.transfer});
  REQUIRE(rogue->RunUntil([&v = victim] { return v.outcomes() == 1; }));
  reading.scene.arena.ExpectAlive(reading.scene.pair);
  reading.scene.arena.Finish();
}

TEST_CASE("a byte beside what is offered cannot be read", "[softnic]") {
  Reading reading;
  const int64_t offset = GENERATE(int64_t{-64}, int64_t{-1}, int64_t{1}, int64_t{kBytes},
                                  int64_t{1} << 20, int64_t{1} << 40);
  auto [rogue, victim, offer] = reading.Offered('a');
  CHECK(rogue->Read(offer.body.address + static_cast<uint64_t>(offset), offer.body.rkey, kBytes) ==
        CompletionStatus::kRemoteAccessError);
  reading.scene.arena.ExpectAlive(reading.scene.pair);
  reading.scene.arena.Finish();
}

TEST_CASE("a byte more than was offered cannot be read, nor up to the last address", "[softnic]") {
  Reading reading;
  auto [rogue, victim, offer] = reading.Offered('a');
  SECTION("a byte more") {
    CHECK(rogue->Read(offer.body.address, offer.body.rkey, kBytes + 1) ==
          CompletionStatus::kRemoteAccessError);
  }
  SECTION("wrapped around") {
    CHECK(rogue->Read(UINT64_MAX - 10, offer.body.rkey, kBytes) ==
          CompletionStatus::kRemoteAccessError);
  }
  reading.scene.arena.ExpectAlive(reading.scene.pair);
  reading.scene.arena.Finish();
}

// The keys of a connection do not depend on chance: the test knows from an earlier one which key
// the offer will have.
TEST_CASE("what is going to be offered cannot be read before", "[softnic]") {
  Reading reading;
  const Envelope model = reading.Offered('a').offer;
  Rogue rogue(reading.scene.arena);
  Peer& victim = Meet(reading.scene.arena, reading.scene.client, rogue);
  Message message = Filled(victim, kBytes, 'b');
  const uint64_t address = AddressOf(message.body);
  SECTION("it is tried too early") {
    CHECK(rogue.Read(address, model.body.rkey, kBytes) == CompletionStatus::kRemoteAccessError);
    CHECK(!IsAll(rogue.loot(kBytes), 'b'));
  }
  SECTION("the key was the right one") {
    victim.Send(std::move(message), 1);
    const Envelope offer = rogue.Hear(Kind::kRts);
    REQUIRE(offer.body.rkey == model.body.rkey);
    REQUIRE(offer.body.address == address);
    CHECK(rogue.Read(address, model.body.rkey, kBytes) == CompletionStatus::kSuccess);
    CHECK(IsAll(rogue.loot(kBytes), 'b'));
  }
  message = Message();
  reading.scene.arena.ExpectAlive(reading.scene.pair);
  reading.scene.arena.Finish();
}

TEST_CASE("what was offered cannot be read after its FIN, whatever lies there by then") {
  Reading reading;
  auto [rogue, victim, offer] = reading.Offered('a');
  rogue->Say({.kind = Kind::kFin, .transfer = offer.transfer});
  // The message ends with the FIN; its memory is free once the device took the key back.
  REQUIRE(rogue->RunUntil([&v = victim] { return v.pool()->stats().leased_bytes == 0; }));
  SECTION("nothing new") {}
  SECTION("something that is not offered yet") {
    Message message = Filled(victim, kBytes, 's');
    REQUIRE(AddressOf(message.body) == offer.body.address);
    CHECK(ReadOf(*rogue, offer) == CompletionStatus::kRemoteAccessError);
    CHECK(!IsAll(rogue->loot(kBytes), 's'));
  }
  SECTION("something that is offered anew") {
    victim.Send(Filled(victim, kBytes, 'n'), 2);
    const Envelope next = rogue->Hear(Kind::kRts);
    REQUIRE(next.body.address == offer.body.address);
    CHECK(next.body.rkey != offer.body.rkey);
    CHECK(ReadOf(*rogue, next) == CompletionStatus::kSuccess);
  }
  if (!rogue->gone()) CHECK(ReadOf(*rogue, offer) != CompletionStatus::kSuccess);
  reading.scene.arena.ExpectAlive(reading.scene.pair);
  reading.scene.arena.Finish();
}

TEST_CASE("what is offered to one connection cannot be read by another") {
  ShmOptions options;
  options.device.windows = GENERATE(true, false);
  Reading reading(options);
  auto [mine, my_victim, my_offer] = reading.Offered('m');
  auto [other, other_victim, other_offer] = reading.Offered('o');
  // Another domain has keys of its own: the same number means other memory, or none.
  if (ReadOf(*mine, other_offer) == CompletionStatus::kSuccess) {
    CHECK(IsAll(mine->loot(kBytes), 'm'));
  }
  CHECK(ReadOf(*other, other_offer) == CompletionStatus::kSuccess);
  CHECK(IsAll(other->loot(kBytes), 'o'));
  reading.scene.arena.ExpectAlive(reading.scene.pair);
  reading.scene.arena.Finish();
}

// RdmaIsolation::kShared, over windows that any peer of a domain can use: what is offered to
// anybody, while it is offered. Without windows: what lies in send buffers.
TEST_CASE("where connections share a domain, a peer can read what another is offered",
          "[softnic]") {
  ShmOptions options;
  options.rdma.isolation = RdmaIsolation::kShared;
  options.device.windows = GENERATE(true, false);
  Reading reading(options);
  auto [mine, my_victim, my_offer] = reading.Offered('m');
  auto [other, other_victim, other_offer] = reading.Offered('o');
  REQUIRE(ReadOf(*mine, other_offer) == CompletionStatus::kSuccess);
  CHECK(IsAll(mine->loot(kBytes), 'o'));
  // And no longer: an honest device keeps to the window.
  other->Say({.kind = Kind::kFin, .transfer = other_offer.transfer});
  REQUIRE(other->RunUntil([&v = other_victim] { return v.outcomes() == 1; }));
  reading.scene.arena.RunFor(kQuiet);
  CHECK((ReadOf(*mine, other_offer) == CompletionStatus::kSuccess) != options.device.windows);
  reading.scene.arena.ExpectAlive(reading.scene.pair);
  reading.scene.arena.Finish();
}

TEST_CASE("where connections share a domain, a byte beside what is offered cannot be read") {
  ShmOptions options;
  options.rdma.isolation = RdmaIsolation::kShared;
  Reading reading(options);
  auto [mine, my_victim, my_offer] = reading.Offered('m');
  auto [other, other_victim, other_offer] = reading.Offered('o');
  CHECK(mine->Read(other_offer.body.address + 1, other_offer.body.rkey, kBytes) ==
        CompletionStatus::kRemoteAccessError);
  reading.scene.arena.ExpectAlive(reading.scene.pair);
  reading.scene.arena.Finish();
}

TEST_CASE("a connection's end takes its offers with it") {
  Reading reading;
  auto [rogue, victim, offer] = reading.Offered('a');
  victim.Close(absl::CancelledError("enough"));
  REQUIRE(rogue->RunUntil([&r = *rogue] { return r.gone(); }));
  CHECK(ReadOf(*rogue, offer) != CompletionStatus::kSuccess);
  reading.scene.arena.ExpectAlive(reading.scene.pair);
  reading.scene.arena.Finish();
}

// ---- all that was given ----

using softnic::FileDescriptor;
using softnic::testing::Folder;
using softnic::testing::Liar;

// Says a CREDIT, as its first SEND, in its own ring.
void Speak(const Liar& liar) {
  softnic::Slot& slot = liar.view().slot(0);
  rdma::EncodeEnvelope({.kind = Kind::kCredit}, slot.payload);
  liar.Show(0, rdma::kEnvelopeBytes);
}

std::vector<FileDescriptor> Loot(const Liar& liar) {
  std::vector<FileDescriptor> all;
  softnic::Packet packet;
  while (softnic::ReceivePacket(liar.socket.get(), packet) == softnic::Received::kPacket) {
    for (FileDescriptor& descriptor : packet.descriptors) all.push_back(std::move(descriptor));
  }
  return all;
}

// In whole files, whatever part of them was meant.
size_t HowOften(std::string_view needle, const std::vector<FileDescriptor>& loot) {
  size_t count = 0;
  for (const FileDescriptor& fd : loot) {
    struct stat file {};
    REQUIRE(::fstat(fd.get(), &file) == 0);
    const auto bytes = static_cast<size_t>(file.st_size);
    void* const base = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    REQUIRE(base != MAP_FAILED);
    const std::string_view text(static_cast<const char*>(base), bytes);
    for (size_t at = text.find(needle); at != text.npos; at = text.find(needle, at + 1)) ++count;
    ::munmap(base, bytes);
  }
  return count;
}

Message Text(Peer& peer, size_t bytes, std::string_view text) {
  Message message = Filled(peer, bytes, ' ');
  auto* const to = reinterpret_cast<char*>(message.body.data());
  for (size_t at = 0; at + text.size() <= bytes; at += text.size()) {
    std::memcpy(to + at, text.data(), text.size());
  }
  std::memcpy(message.head.Resize(text.size()).data(), text.data(), text.size());
  return message;
}

// A connection to the victim of a transport, and so of a memory, of its own.
struct Outside {
  Outside(Arena& arena, const std::string& folder) {
    ShmOptions options;
    options.device.runtime_folder = folder;
    transport = MakeShmTransport(options);
    std::unique_ptr<Connection> connection;
    EventLoop& loop = arena.client_loop();
    std::unique_ptr<Transport::PendingConnect> pending;
    arena.On(loop, [&] {
      pending = transport->Connect(
          loop, ParseEndpoint("shm://victim").value(), loop.clock().Now() + kPatience,
          [&](absl::StatusOr<std::unique_ptr<Connection>> made) { connection = *std::move(made); });
    });
    REQUIRE(arena.RunUntil([&] { return connection != nullptr; }));
    arena.On(loop, [&] { pending = nullptr; });
    peer = &arena.Adopt("outside", loop, std::move(connection));
    peer->Start();
    host = &arena.Accepted();
  }
  std::shared_ptr<Transport> transport;
  Peer* peer = nullptr;
  Peer* host = nullptr;
};

// With one domain for all, it finds what others are sent, and still nothing of what arrives.
TEST_CASE("a peer that scans all that it was given finds no byte of another connection",
          "[softnic]") {
  constexpr std::string_view kSecret = "not for the neighbour";
  constexpr std::string_view kArrives = "for the victim's eyes alone";
  constexpr std::string_view kMeant = "for this peer, to be read";
  const Folder folder;
  ShmOptions options;
  options.device.runtime_folder = folder.path();
  options.device.windows = GENERATE(true, false);
  const bool shared = GENERATE(false, true);
  if (shared) options.rdma.isolation = RdmaIsolation::kShared;
  TransportUnderTest subject = ShmSubject(options);
  subject.listen_endpoint = [] { return ParseEndpoint("shm://victim").value(); };
  Arena arena(subject, Layout::kTwoLoops);
  const Pair honest = arena.Connect();
  const Outside outside(arena, folder.path());
  uint64_t number = 0;
  const auto talk = [&] {
    for (const size_t bytes : {size_t{64}, size_t{240}, size_t{8000}, size_t{100'000}, MiB}) {
      ++number;
      honest.client.Send(Text(honest.client, bytes, kSecret), number);
      honest.server.Send(Text(honest.server, bytes, kSecret), number);
      outside.peer->Send(Text(*outside.peer, bytes, kArrives), number);
    }
    REQUIRE(arena.RunUntil([&] {
      return honest.client.received() == number && honest.server.received() == number &&
             outside.host->received() == number;
    }));
  };
  talk();

  const Liar liar(folder.path());
  softnic::ConnectPacket request = Liar::Request();
  const rdma::ParametersBytes parameters = rdma::EncodeParameters({});
  request.responder_resources = request.initiator_depth = 16;
  request.private_bytes = parameters.size();
  std::copy(parameters.begin(), parameters.end(), request.private_data);
  liar.Connect(request);
  softnic::Packet answer;
  REQUIRE(arena.RunUntil([&] {
    return softnic::ReceivePacket(liar.socket.get(), answer) == softnic::Received::kPacket;
  }));
  REQUIRE(answer.kind() == softnic::PacketKind::kAccept);
  REQUIRE(softnic::SendPacket(liar.socket.get(), softnic::PacketKind::kReady) == 0);
  Peer& victim = arena.Accepted();
  Speak(liar);

  talk();
  victim.Send(Text(victim, 150, kMeant), 1);
  victim.Send(Text(victim, 100'000, kMeant), 2);
  arena.RunFor(kQuiet);
  REQUIRE(CountersOf(victim).sends == 2);
  talk();
  // Memory that a connection gave back is another's, perhaps.
  honest.server.Destroy();
  honest.client.Destroy();
  victim.Send(Text(victim, 2 * MiB, kMeant), 3);
  arena.RunFor(kQuiet);

  std::vector<FileDescriptor> loot = Loot(liar);
  for (FileDescriptor& descriptor : answer.descriptors) loot.push_back(std::move(descriptor));
  CHECK(loot.size() >= 4);  // ring, keys, memory
  CHECK(HowOften(kMeant, loot) > (size_t{2} << 20) / kMeant.size());
  CHECK((HowOften(kSecret.substr(0, 8), loot) == 0) == !shared);
  CHECK(HowOften(kArrives.substr(0, 12), loot) == 0);
  arena.Finish();
}

}  // namespace
}  // namespace farcall::testing
