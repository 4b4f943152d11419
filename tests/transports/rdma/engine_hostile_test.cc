// A peer whose device is honest and whose program is not: it speaks to the engine by raw SENDs.
// Every broken rule costs its own connection, is counted, and names the rule.

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "farcall/rpc/bytes.h"
#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/engine_testing.h"
#include "farcall/transports/rdma/envelope.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;
using rdma::ConnectionEvent;
using rdma::Envelope;
using rdma::Kind;
using rdma::Parameters;

constexpr uint32_t kReceiveBytes = 8448;

// A client by hand.
class Rogue {
 public:
  Rogue(Scene& scene, const std::string& name, const Parameters& parameters = {})
      : scene_(scene),
        device_(OnVerbs() ? verbs::MakeVerbsDevice().value()
                          : softnic::MakeSoftnicDevice({}).value()),
        end_(*device_, {.receive_depth = 64, .max_inline = 0}),
        id_(device_->Resolve(*end_.channel, name).value()) {
    Expect(ConnectionEvent::Kind::kResolved);
    end_.MakePair(std::move(id_));
    for (uint32_t i = 0; i < 64; ++i) end_.Receive(i, i * kReceiveBytes, kReceiveBytes);
    const rdma::ParametersBytes bytes = rdma::EncodeParameters(parameters);
    REQUIRE(end_.id->Connect({.private_data = bytes}).ok());
  }

  ConnectionEvent Expect(ConnectionEvent::Kind kind) {
    REQUIRE(scene_.arena.RunUntil([&] {
      end_.Turn();
      return !end_.events.empty();
    }));
    ConnectionEvent event = std::move(end_.events.front());
    end_.events.pop_front();
    CHECK(event.kind == kind);
    return event;
  }

  void Send(const Envelope& envelope, size_t bytes) {
    constexpr size_t kAt = 64 * kReceiveBytes;
    std::byte* const at = end_.memory(kAt);
    std::memset(at, 0, bytes);
    rdma::EncodeEnvelope(envelope, {at, 4096});
    end_.Send(1000, kAt, static_cast<uint32_t>(bytes));
  }
  void SendRaw(std::string_view text) {
    constexpr size_t kAt = 64 * kReceiveBytes;
    std::memcpy(end_.memory(kAt), text.data(), text.size());
    end_.Send(1000, kAt, static_cast<uint32_t>(text.size()));
  }
  // An RTS of `bytes` of this side's memory.
  Envelope Offer(uint32_t transfer, uint64_t bytes) {
    return {.kind = Kind::kRts,
            .transfer = transfer,
            .sizes = {bytes, 0},
            .body = {end_.address(), end_.region->rkey()}};
  }
  void Turn() { end_.Turn(); }

 private:
  Scene& scene_;
  const std::shared_ptr<rdma::Device> device_;
  rdma::testing::End end_;
  std::unique_ptr<rdma::ConnectionId> id_;
};

constexpr size_t kSmall = rdma::kEnvelopeBytes;
constexpr size_t kRts = rdma::kEnvelopeBytes + rdma::kOfferBytes;

struct Crime {
  std::string rule;  // a word of it
  std::function<void(Rogue&)> commit;
};

std::vector<Crime> Crimes() {
  return {
      {"kind", [](Rogue& rogue) { rogue.SendRaw(std::string(32, '\x7f')); }},
      {"bytes", [](Rogue& rogue) { rogue.SendRaw("short"); }},
      {"FIN", [](Rogue& rogue) { rogue.Send({.kind = Kind::kFin, .transfer = 7}, kSmall); }},
      {"CANCEL", [](Rogue& rogue) { rogue.Send({.kind = Kind::kCancel, .transfer = 7}, kSmall); }},
      {"reposts", [](Rogue& rogue) { rogue.Send({.reposts = 1000}, kSmall); }},
      {"count up",
       [](Rogue& rogue) {
         rogue.Send(rogue.Offer(5, 100), kRts);
         rogue.Send(rogue.Offer(5, 100), kRts);
       }},
      {"fits 64 bits",
       [](Rogue& rogue) {
         Envelope offer = rogue.Offer(1, 100);
         offer.body.address = UINT64_MAX - 10;
         rogue.Send(offer, kRts);
       }},
  };
}

TEST_CASE("a peer that breaks a rule loses its connection, and nobody else does") {
  Scene scene;
  const std::string name =
      scene.client.info().peer_address.substr(scene.client.info().peer_address.find("://") + 3);
  for (const Crime& crime : Crimes()) {
    INFO(crime.rule);
    Rogue rogue(scene, name);
    rogue.Expect(ConnectionEvent::Kind::kEstablished);
    Peer& victim = scene.arena.Accepted();
    crime.commit(rogue);
    REQUIRE(scene.arena.RunUntil([&] {
      rogue.Turn();
      return victim.closed().has_value();
    }));
    CHECK(victim.closed()->code() == absl::StatusCode::kUnavailable);
    CHECK_THAT(std::string(victim.closed()->message()), Contains(crime.rule));
    CHECK(victim.info().counters.violations == 1);
    scene.arena.ExpectAlive(scene.pair);
  }
  scene.arena.Finish();
}

TEST_CASE("an offer of what cannot be read ends its own connection") {
  Scene scene;
  const std::string name =
      scene.client.info().peer_address.substr(scene.client.info().peer_address.find("://") + 3);
  Rogue rogue(scene, name);
  rogue.Expect(ConnectionEvent::Kind::kEstablished);
  Peer& victim = scene.arena.Accepted();
  Envelope offer = rogue.Offer(1, 100);
  SECTION("a key that never was") { offer.body.rkey ^= 0x00ff0000; }
  SECTION("before the region") { offer.body.address -= 64; }
  SECTION("beyond the region") { offer.sizes.body = 2 << 20; }
  rogue.Send(offer, kRts);
  REQUIRE(scene.arena.RunUntil([&] {
    rogue.Turn();
    return victim.closed().has_value();
  }));
  if (DeviceCan().acknowledges) {
    CHECK(victim.closed()->code() == absl::StatusCode::kInternal);
    CHECK_THAT(std::string(victim.closed()->message()),
               Contains("READ on queue pair") && Contains("remote access error"));
  } else {
    CHECK(victim.closed()->code() == absl::StatusCode::kUnavailable);
  }
  CHECK(victim.received() == 0);
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

TEST_CASE("more offers than were allowed are a violation") {
  ShmOptions options;
  options.rdma.limits.max_transfers = 3;
  Scene scene(options);
  const std::string name =
      scene.client.info().peer_address.substr(scene.client.info().peer_address.find("://") + 3);
  Rogue rogue(scene, name);
  rogue.Expect(ConnectionEvent::Kind::kEstablished);
  Peer& victim = scene.arena.Accepted();
  // In one go: none of them is answered in between.
  for (uint32_t i = 1; i <= 4; ++i) rogue.Send(rogue.Offer(i, 100), kRts);
  REQUIRE(scene.arena.RunUntil([&] { return victim.closed().has_value(); }));
  CHECK_THAT(std::string(victim.closed()->message()), Contains("RTS"));
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

TEST_CASE("a handshake that makes no sense is refused with the reason") {
  Scene scene;
  const std::string name =
      scene.client.info().peer_address.substr(scene.client.info().peer_address.find("://") + 3);
  Parameters parameters;
  SECTION("too few receives") { parameters.receive_depth = 2; }
  SECTION("receives too short") { parameters.receive_bytes = 64; }
  Rogue rogue(scene, name, parameters);
  const ConnectionEvent event = rogue.Expect(ConnectionEvent::Kind::kRejected);
  CHECK(!event.private_data.empty());
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

}  // namespace
}  // namespace farcall::testing
