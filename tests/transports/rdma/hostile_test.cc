// Peers of the engine that break the rules of wire_format.md, SEND by SEND: a table, played against
// a server and against a client. Each costs its own connection, is counted and logged, and names
// the rule; what the others have goes on, and nothing stays in memory.

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "farcall/rpc/bytes.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/transports/rdma/rogue.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;
using rdma::ConnectionEvent;
using rdma::Envelope;
using rdma::Kind;

constexpr uint32_t kMaxTransfers = 8;

ShmOptions Options() {
  ShmOptions options;
  options.rdma.limits.max_transfers = kMaxTransfers;
  return options;
}

// A rogue and who suffers it.
struct Victim {
  Peer& peer;
  Rogue& rogue;
};

struct Crime {
  std::string name;
  std::string rule;  // a part of what the victim says
  std::function<void(Victim)> commit;
};

// An envelope with one field bent.
Crime Bent(std::string name, std::string rule, Envelope envelope, size_t at, uint8_t value,
           std::string rest = {}) {
  return {std::move(name), std::move(rule), [=](Victim victim) {
            std::vector<std::byte> bytes = victim.rogue.Bytes(envelope);
            bytes.at(at) = std::byte{value};
            for (const char c : rest) bytes.push_back(static_cast<std::byte>(c));
            victim.rogue.SayBytes(bytes);
          }};
}

// One that the encoder writes as it is.
Crime Said(std::string name, std::string rule, Envelope envelope, std::string rest = {}) {
  return {std::move(name), std::move(rule),
          [=](Victim victim) { victim.rogue.Say(envelope, rest); }};
}

Crime Offered(std::string name, std::string rule, std::function<void(Envelope&)> bend) {
  return {std::move(name), std::move(rule), [bend = std::move(bend)](Victim victim) {
            Envelope offer = victim.rogue.Offer(1, 100);
            bend(offer);
            victim.rogue.Say(offer);
          }};
}

// Only its first bytes.
void SayPart(Rogue& rogue, const Envelope& envelope, size_t bytes) {
  const std::vector<std::byte> all = rogue.Bytes(envelope);
  rogue.SayBytes(std::span(all).first(bytes));
}

// The victim offers a payload, and has been heard to.
uint32_t LetItOffer(Victim victim) {
  victim.peer.Send({.body = 100'000});
  return victim.rogue.Hear(Kind::kRts).transfer;
}

constexpr uint64_t kMax64 = UINT64_MAX;
const Envelope kCredit{.kind = Kind::kCredit};
const Envelope kMessage{.kind = Kind::kMessage};
const Envelope kFin{.kind = Kind::kFin, .transfer = 1};

std::vector<Crime> Lengths() {
  return {
      {"nothing", "at least 32 bytes", [](Victim v) { v.rogue.SayBytes({}); }},
      {"an envelope less a byte", "at least 32 bytes",
       [](Victim v) { SayPart(v.rogue, kCredit, 31); }},
      {"an RTS less a byte of its offer", "at least 56 bytes",
       [](Victim v) { SayPart(v.rogue, v.rogue.Offer(1, 9), 55); }},
      Said("a byte too many", "as long as its envelope says", kCredit, "x"),
      {"an RTS with more than its head", "as long as its envelope says",
       [](Victim v) { v.rogue.Say(v.rogue.Offer(1, 9), "x"); }},
      Said("a head that is not there", "as long as its envelope says",
           {.kind = Kind::kMessage, .head = 100}),
      Said("a body that is not there", "no larger payload",
           {.kind = Kind::kMessage, .sizes = {uint64_t{1} << 40, 0}}),
      Said("a body that is shorter", "as long as its envelope says",
           {.kind = Kind::kMessage, .sizes = {9, 0}}, std::string(32 + 10, '\0')),
      Said("sizes that overflow", "fit 64 bits", {.kind = Kind::kMessage, .sizes = {2, kMax64}}),
      Said("a size of all there is", "no larger payload",
           {.kind = Kind::kMessage, .sizes = {kMax64, 0}}),
      Said("a head above the limit", "a head is at most 4096",
           {.kind = Kind::kMessage, .head = kMaxHeadBytes + 1},
           std::string(kMaxHeadBytes + 1, 'x')),
      {"a head above the limit, of an RTS", "a head is at most 4096",
       [](Victim v) {
         Envelope offer = v.rogue.Offer(1, 9);
         offer.head = 0xffff;
         v.rogue.Say(offer);
       }},
  };
}

std::vector<Crime> Fields() {
  return {
      Bent("kind 0", "the kind of a SEND is 1 to 5", kCredit, 0, 0),
      Bent("kind 6", "the kind of a SEND is 1 to 5", kCredit, 0, 6),
      Bent("kind 255", "the kind of a SEND is 1 to 5", kCredit, 0, 255),
      Bent("a reserved byte", "reserved bytes of an envelope are 0", kCredit, 12, 1),
      Bent("the last reserved byte", "reserved bytes of an envelope are 0", kMessage, 15, 128),
      Bent("a status of a MESSAGE", "the status of a FIN is 0 to 16", kMessage, 1, 1),
      Bent("a status of a CREDIT", "the status of a FIN is 0 to 16", kCredit, 1, 1),
      Bent("status 17", "the status of a FIN is 0 to 16", kFin, 1, 17),
      Bent("a transfer of a CREDIT", "of a MESSAGE or CREDIT is 0", kCredit, 8, 1),
      Bent("a transfer of a MESSAGE", "of a MESSAGE or CREDIT is 0", kMessage, 11, 1),
      Bent("a head of a CREDIT", "only a MESSAGE or RTS has a head", kCredit, 2, 1, "x"),
      Bent("a body of a FIN", "only a MESSAGE or RTS has a payload", kFin, 16, 1),
      Bent("an attachment of a FIN", "only a MESSAGE or RTS has a payload", kFin, 31, 1),
      Said("FIN of transfer 0", "is at least 1", {.kind = Kind::kFin}),
      Said("CANCEL of transfer 0", "is at least 1", {.kind = Kind::kCancel}),
      Offered("RTS of transfer 0", "is at least 1", [](Envelope& e) { e.transfer = 0; }),
      // Envelope and a head of 1 byte, then 31 of padding, a body of 1, 63 of padding, a byte.
      Said("padding before the body", "between two parts are 0",
           {.kind = Kind::kMessage, .head = 1, .sizes = {1, 0}},
           "h" + std::string(30, '\0') + "p" + "b"),
      Said("padding before the attachment", "between two parts are 0",
           {.kind = Kind::kMessage, .head = 1, .sizes = {1, 1}},
           "h" + std::string(31, '\0') + "bp" + std::string(62, '\0') + "a"),
  };
}

std::vector<Crime> Offers() {
  return {
      Offered("an RTS of nothing", "at least 1 byte",
              [](Envelope& e) {
                e.sizes = {0, 0};
              }),
      Offered("sizes that overflow", "fit 64 bits",
              [](Envelope& e) {
                e.sizes = {kMax64, 2};
              }),
      Offered("a body that wraps around", "body that an RTS offers fits 64 bits",
              [](Envelope& e) { e.body.address = kMax64 - 50; }),
      Offered("an attachment that wraps around", "attachment that an RTS offers fits 64 bits",
              [](Envelope& e) {
                e.sizes.attachment = 100;
                e.attachment = {kMax64 - 99, e.body.rkey};
              }),
      Offered("the address of no attachment", "0 for its address and key",
              [](Envelope& e) { e.attachment.address = 1; }),
      Offered("the key of no body", "0 for its address and key",
              [](Envelope& e) {
                e.sizes = {0, 100};
                e.attachment = e.body;
                e.body.address = 0;
              }),
  };
}

std::vector<Crime> Transfers() {
  const auto two = [](uint32_t first, uint32_t second) {
    return [=](Victim v) {
      v.rogue.Say(v.rogue.Offer(first, 100));
      v.rogue.Say(v.rogue.Offer(second, 100));
    };
  };
  return {
      {"a transfer twice", "count up", two(5, 5)},
      {"transfers that count down", "count up", two(5, 4)},
      {"a transfer 2^31 on", "count up", two(5, 5 + (1U << 31))},
      {"a transfer again after its FIN", "count up",
       [](Victim v) {
         v.rogue.Say(v.rogue.Offer(1, 100));
         v.rogue.Hear(Kind::kFin);
         v.rogue.Say(v.rogue.Offer(1, 100));
       }},
      {"more RTS than were allowed", "RTS are without a FIN",
       [](Victim v) {
         for (uint32_t i = 1; i <= kMaxTransfers + 1; ++i) v.rogue.Say(v.rogue.Offer(i, 100));
       }},
      Said("FIN of what never was offered", "a FIN is for a transfer that is offered", kFin),
      {"FIN of what is to come", "a FIN is for a transfer that is offered",
       [](Victim v) {
         const uint32_t transfer = LetItOffer(v);
         v.rogue.Say({.kind = Kind::kFin, .transfer = transfer + 1});
       }},
      {"FIN twice", "a FIN is for a transfer that is offered",
       [](Victim v) {
         const uint32_t transfer = LetItOffer(v);
         v.rogue.Say({.kind = Kind::kFin, .transfer = transfer});
         v.rogue.Say({.kind = Kind::kFin, .transfer = transfer});
       }},
      {"FIN again, much later", "a FIN is for a transfer that is offered",
       [](Victim v) {
         const uint32_t transfer = LetItOffer(v);
         v.rogue.Say({.kind = Kind::kFin, .transfer = transfer});
         REQUIRE(v.rogue.RunUntil([&] { return v.peer.outcomes() == v.peer.sends(); }));
         v.rogue.Say({.kind = Kind::kFin, .transfer = transfer});
       }},
      Said("CANCEL of what never was", "a CANCEL is for a transfer that was announced",
           {.kind = Kind::kCancel, .transfer = 1}),
      {"CANCEL of what is to come", "a CANCEL is for a transfer that was announced",
       [](Victim v) {
         v.rogue.Say(v.rogue.Offer(1, 100));
         v.rogue.Say({.kind = Kind::kCancel, .transfer = 2});
       }},
  };
}

std::vector<Crime> Credits() {
  return {
      {"reposts of all there is", "reposts count up and never beyond",
       [](Victim v) { v.rogue.SayReposts(UINT32_MAX); }},
      {"one repost too many", "reposts count up and never beyond",
       [](Victim v) {
         v.peer.Send({.body = 10});
         v.rogue.Hear(Kind::kMessage);
         v.rogue.SayReposts(3);  // a client has spoken a CREDIT before: two at most
       }},
      {"reposts that go back", "reposts count up and never beyond",
       [](Victim v) {
         v.peer.Send({.body = 10});
         v.rogue.Hear(Kind::kMessage);
         v.rogue.Say({.kind = Kind::kCredit});
         v.rogue.SayReposts(0);
       }},
      {"a SEND without a credit", "a SEND needs a credit",
       [](Victim v) {
         // CREDITs are not news: nothing comes back for them.
         for (uint32_t i = 0; i < RdmaOptions().receive_depth; ++i) v.rogue.Say(kCredit);
         REQUIRE(v.rogue.RunUntil([&] { return v.rogue.unfinished_sends() == 0; }));
         v.rogue.Say(kCredit);
       }},
  };
}

std::vector<Crime> Crimes() {
  std::vector<Crime> all;
  for (auto* table : {&Lengths, &Fields, &Offers, &Transfers, &Credits}) {
    for (Crime& crime : table()) all.push_back(std::move(crime));
  }
  return all;
}

void Play(Scene& scene, const hostile::LogLines& log, const Crime& crime, bool is_client) {
  INFO(crime.name << (is_client ? ", a client" : ", a server"));
  Rogue rogue(scene.arena);
  Peer& victim = Meet(scene.arena, scene.client, rogue, is_client);
  crime.commit({victim, rogue});
  REQUIRE(rogue.RunUntil([&] { return victim.closed().has_value() && rogue.gone(); }));
  CHECK(victim.closed()->code() == absl::StatusCode::kUnavailable);
  const std::string said(victim.closed()->message());
  CHECK_THAT(said, Contains("the peer broke a rule of the wire") && Contains(crime.rule));
  CHECK_THAT(said, Contains(victim.info().peer_address));
  CHECK(victim.info().counters.violations == 1);
  CHECK_THAT(log.all(), Contains(said));
  CHECK(victim.outcomes() == victim.sends());
}

TEST_CASE("a peer that breaks a rule, SEND by SEND, loses its connection and nobody else does") {
  const bool is_client = GENERATE(true, false);
  const hostile::LogLines log;
  Scene scene(Options());
  for (const Crime& crime : Crimes()) {
    Play(scene, log, crime, is_client);
    scene.arena.ExpectAlive(scene.pair);
  }
  CHECK(scene.client.info().counters.violations == 0);
  CHECK(scene.server.info().counters.violations == 0);
  scene.arena.Finish();
}

TEST_CASE("memory and descriptors stay flat while every rule is broken again and again") {
  hostile::Rounds rounds;
  const std::vector<Crime> crimes = Crimes();
  for (int round = 0; round < 9; ++round) {
    {
      const hostile::LogLines log;
      Scene scene(Options());
      for (size_t i = 0; i < crimes.size(); ++i) Play(scene, log, crimes[i], i % 2 == 0);
      scene.arena.Finish();
    }
    rounds.Add();
  }
  CHECK(rounds.Trouble(crimes.size()) == "");
}

// ---- offers of what cannot be read ----

TEST_CASE("an RTS whose bytes the peer's device refuses ends its own connection") {
  const bool is_client = GENERATE(true, false);
  Scene scene(Options());
  const std::vector<std::pair<std::string, std::function<void(Envelope&)>>> offers = {
      {"a key that never was", [](Envelope& e) { e.body.rkey += 1 << 16; }},
      {"an old generation of the key", [](Envelope& e) { e.body.rkey ^= 1; }},
      {"key 0", [](Envelope& e) { e.body.rkey = 0; }},
      {"all bits of a key", [](Envelope& e) { e.body.rkey = UINT32_MAX; }},
      {"address 0", [](Envelope& e) { e.body.address = 0; }},
      {"a byte before the region", [](Envelope& e) { e.body.address -= 1; }},
      {"a byte beyond the region", [](Envelope& e) { e.sizes.body = 64 << 20; }},
      {"up to the last address", [](Envelope& e) { e.body.address = kMax64 - 100; }},
      {"only the attachment", [](Envelope& e) {
         e.sizes.attachment = 100;
         e.attachment = {e.body.address, e.body.rkey + (1 << 16)};
       }}};
  for (const auto& [name, bend] : offers) {
    INFO(name);
    Rogue rogue(scene.arena);
    Peer& victim = Meet(scene.arena, scene.client, rogue, is_client);
    Envelope offer = rogue.Offer(1, 100);
    bend(offer);
    rogue.Say(offer);
    REQUIRE(rogue.RunUntil([&] { return victim.closed().has_value(); }));
    CHECK(victim.closed()->code() == absl::StatusCode::kInternal);
    CHECK_THAT(std::string(victim.closed()->message()), Contains("READ on queue pair") &&
                                                            Contains("remote access error") &&
                                                            Contains(victim.info().peer_address));
    CHECK(victim.received() == 0);
    scene.arena.ExpectAlive(scene.pair);
  }
  scene.arena.Finish();
}

TEST_CASE("an RTS for more than there is memory costs that message, with or without a CANCEL") {
  const bool cancels = GENERATE(false, true);
  ShmOptions options = Options();
  options.rdma.receive_pool_bytes = 8 << 20;
  Scene scene(options);
  Rogue rogue(scene.arena);
  Peer& victim = Meet(scene.arena, scene.client, rogue);
  Envelope offer = rogue.Offer(1, uint64_t{1} << 62);
  offer.body.address = 0;
  rogue.Say(offer);
  if (cancels) rogue.Say({.kind = Kind::kCancel, .transfer = 1});  // crosses the FIN: nothing
  const Envelope fin = rogue.Hear(Kind::kFin);
  CHECK(fin.status == static_cast<uint8_t>(absl::StatusCode::kResourceExhausted));
  rogue.Say(rogue.Offer(2, 100));
  CHECK(rogue.Hear(Kind::kFin).transfer == 2);
  CHECK(victim.received() == 1);
  CHECK(victim.info().counters.violations == 0);
  scene.arena.ExpectAlive(scene.pair);
  scene.arena.Finish();
}

}  // namespace
}  // namespace farcall::testing
