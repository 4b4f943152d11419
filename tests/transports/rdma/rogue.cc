#include "farcall/tests/transports/rdma/rogue.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "farcall/rpc/bytes.h"

namespace farcall::testing {
namespace {

using rdma::ConnectionEvent;
using rdma::Envelope;

// Where things are in the memory of an End.
constexpr uint32_t kDepth = 64;
constexpr uint32_t kSlotBytes = 16 << 10;  // of a receive, and of a SEND
constexpr size_t kOffered = 0;             // what RTS offer, and what READs bring
constexpr size_t kReceives = size_t{1} << 20;
constexpr size_t kSends = kReceives + kDepth * kSlotBytes;
constexpr uint32_t kSendDepth = 256;
constexpr size_t kMemory = kSends + kSendDepth * kSlotBytes;

constexpr uint64_t kSendId = 1000;
constexpr uint64_t kReadId = 2000;

}  // namespace

std::string NameOf(Peer& client) {
  const std::string address = client.info().peer_address;
  return address.substr(address.find("://") + 3);
}

Rogue::Rogue(Arena& arena, const std::string& runtime_folder)
    : arena_(arena),
      device_(OnVerbs() ? verbs::MakeVerbsDevice().value()
                        : softnic::MakeSoftnicDevice(
                              {.runtime_folder = runtime_folder, .arena_bytes = uint32_t{1} << 20})
                              .value()),
      end(*device_,
          {.send_depth = kSendDepth, .receive_depth = kDepth, .max_inline = 0, .memory = kMemory}) {
}

Rogue::~Rogue() = default;

// ---- the handshake ----

void Rogue::Connect(const std::string& name) {
  Connect(name, rdma::EncodeParameters({.receive_depth = kDepth, .receive_bytes = kSlotBytes}));
}

void Rogue::Connect(const std::string& name, std::span<const std::byte> private_data,
                    uint32_t serves_reads) {
  auto id = device_->Resolve(*end.channel, name);
  REQUIRE(id.ok());
  Await(ConnectionEvent::Kind::kResolved);
  Ready(*std::move(id));
  REQUIRE(
      end.id->Connect({.private_data = private_data, .responder_resources = serves_reads}).ok());
}

Endpoint Rogue::Listen() {
  const Endpoint endpoint = NewShmName();
  auto listener = device_->Listen(*end.channel, OnVerbs() ? endpoint.host + ":0" : endpoint.path);
  REQUIRE(listener.ok());
  listener_ = *std::move(listener);
  return ParseEndpoint(endpoint.scheme + "://" + listener_->address()).value();
}

void Rogue::Answer(std::span<const std::byte> private_data) {
  Ready(Await(ConnectionEvent::Kind::kConnectRequest).request);
  REQUIRE(end.id->Accept({.private_data = private_data}).ok());
}

void Rogue::Ready(std::unique_ptr<rdma::ConnectionId> id) {
  end.MakePair(std::move(id));
  for (uint32_t i = 0; i < kDepth; ++i) end.Receive(i, kReceives + i * kSlotBytes, kSlotBytes);
}

ConnectionEvent Rogue::Await(ConnectionEvent::Kind kind) {
  REQUIRE(RunUntil([&] { return !end.events.empty(); }));
  ConnectionEvent event = std::move(end.events.front());
  end.events.pop_front();
  INFO(event.status);
  REQUIRE(event.kind == kind);
  return event;
}

// ---- saying ----

std::vector<std::byte> Rogue::Bytes(Envelope envelope) const {
  const bool offer = envelope.kind == rdma::Kind::kRts;
  std::vector<std::byte> bytes(rdma::kEnvelopeBytes + (offer ? rdma::kOfferBytes : 0));
  envelope.reposts = reposted_;
  rdma::EncodeEnvelope(envelope, bytes);
  return bytes;
}

void Rogue::Say(Envelope envelope, std::string_view rest) {
  std::vector<std::byte> bytes = Bytes(envelope);
  const auto more = std::as_bytes(std::span(rest));
  bytes.insert(bytes.end(), more.begin(), more.end());
  SayBytes(bytes);
}

void Rogue::SayReposts(uint32_t reposted) {
  std::vector<std::byte> bytes(rdma::kEnvelopeBytes);
  rdma::EncodeEnvelope({.kind = rdma::Kind::kCredit, .reposts = reposted}, bytes);
  SayBytes(bytes);
}

void Rogue::SayBytes(std::span<const std::byte> bytes) {
  REQUIRE(bytes.size() <= kSlotBytes);
  const size_t at = kSends + (sent_++ % kSendDepth) * kSlotBytes;
  std::copy(bytes.begin(), bytes.end(), end.memory(at));
  end.Send(kSendId, at, static_cast<uint32_t>(bytes.size()));
  ++unfinished_;
}

Envelope Rogue::Offer(uint32_t transfer, uint64_t bytes) const {
  return {.kind = rdma::Kind::kRts,
          .transfer = transfer,
          .sizes = {bytes, 0},
          .body = {end.address(kOffered), end.region->rkey()}};
}

// ---- hearing ----

Envelope Rogue::Hear(rdma::Kind kind) {
  while (true) {
    REQUIRE(RunUntil([&] { return !heard_.empty(); }));
    const Envelope envelope = heard_.front();
    heard_.pop_front();
    if (envelope.kind == kind) return envelope;
  }
}

rdma::CompletionStatus Rogue::Read(uint64_t address, uint32_t rkey, uint32_t bytes) {
  read_.reset();
  end.Read(kReadId, kOffered, bytes, address, rkey);
  REQUIRE(RunUntil([&] { return read_.has_value(); }));
  return *read_;
}

std::span<const std::byte> Rogue::loot(size_t bytes) const { return {end.memory(kOffered), bytes}; }

void Rogue::Turn() {
  end.Turn();
  for (; !end.completions.empty(); end.completions.pop_front()) {
    OnCompletion(end.completions.front());
  }
  for (const ConnectionEvent& event : end.events) {
    // Who is given up before it took the answer is told so in other words.
    if (event.kind == ConnectionEvent::Kind::kDisconnected ||
        (OnVerbs() && event.kind == ConnectionEvent::Kind::kUnreachable)) {
      gone_ = true;
    }
  }
}

void Rogue::OnCompletion(const rdma::Completion& completion) {
  if (completion.wr_id == kReadId) read_ = completion.status;
  if (completion.wr_id == kSendId) --unfinished_;
  if (completion.wr_id >= kDepth || completion.status != rdma::CompletionStatus::kSuccess) return;
  const size_t at = kReceives + completion.wr_id * kSlotBytes;
  Envelope envelope;
  const absl::Status decoded = rdma::DecodeEnvelope({end.memory(at), completion.bytes}, envelope);
  INFO(decoded);
  CHECK(decoded.ok());  // the engine keeps the rules whatever is done to it
  heard_.push_back(envelope);
  if (!reposts) return;
  end.Receive(completion.wr_id, at, kSlotBytes);
  ++reposted_;
}

bool Rogue::RunUntil(const std::function<bool()>& done) {
  return arena_.RunUntil([&] {
    Turn();
    return done();
  });
}

Peer& Meet(Arena& arena, Peer& healthy, Rogue& rogue, bool rogue_is_client) {
  if (rogue_is_client) {
    rogue.Connect(NameOf(healthy));
    rogue.Await(ConnectionEvent::Kind::kEstablished);
    rogue.Say({.kind = rdma::Kind::kCredit});  // the active side speaks first
    return arena.Accepted();
  }
  Dial dial(arena, arena.client_loop(), rogue.Listen());
  rogue.Answer(rdma::EncodeParameters({.receive_depth = kDepth, .receive_bytes = kSlotBytes}));
  REQUIRE(rogue.RunUntil([&] { return dial.ended(); }));
  Peer& victim = arena.Adopt("victim", arena.client_loop(), dial.Take());
  victim.Start();
  rogue.Await(ConnectionEvent::Kind::kEstablished);
  return victim;
}

}  // namespace farcall::testing
