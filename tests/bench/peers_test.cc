#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "farcall/bench/demo/peer_subject.h"
#include "farcall/bench/measure/payload.h"
#include "farcall/bench/peers/peer.h"

namespace farcall::bench {

namespace {

using std::chrono::milliseconds;

Workload Short(Case kind, size_t bytes, int outstanding) {
  return {.kind = kind,
          .bytes = bytes,
          .outstanding = outstanding,
          .duration = milliseconds(20),
          .warm_up = milliseconds(5)};
}

PeerSubject TestPeer(const char* variant) {
  return PeerSubject({"peer/test", "kernel", Mode::kEvent, "farcall_test_peer", variant, "nothing"},
                     FARCALL_BIN);
}

TEST_CASE("every workload runs on a peer") {
  PeerSubject peer = TestPeer("honest");
  CHECK(peer.About().value_or("") == "sockets of the system, honest");
  for (const Workload& workload :
       {Short(Case::kLatency, 16, 1), Short(Case::kLatency, 1 << 20, 1),
        Short(Case::kThroughput, 32, 64), Short(Case::kBulkRequest, 1 << 20, 8),
        Short(Case::kBulkReply, 1 << 20, 8)}) {
    CAPTURE(NameOf(workload.kind), workload.bytes);
    const absl::StatusOr<Measurement> measurement = peer.Run(workload, std::nullopt);
    CAPTURE(measurement.status());
    REQUIRE(measurement.ok());
    CHECK(measurement->latency.count() > 0);
    CHECK(measurement->first_error.empty());
    CHECK(measurement->errors == 0);
    CHECK(measurement->elapsed_ns >= 20'000'000);
    CHECK(measurement->cpu_ns > 0);
  }
}

TEST_CASE("a peer's wrong replies are counted, a broken or missing one is an error") {
  const Workload workload = Short(Case::kLatency, 32, 1);
  const absl::StatusOr<Measurement> wrong = TestPeer("wrong").Run(workload, std::nullopt);
  REQUIRE(wrong.ok());
  CHECK(wrong->errors > 0);
  CHECK(wrong->first_error.find("is not what was sent") != std::string::npos);
  CHECK(absl::IsUnavailable(TestPeer("broken").Run(workload, std::nullopt).status()));
  CHECK_FALSE(TestPeer("of no such variant").About().ok());
  PeerSubject missing({"peer/test", "kernel", Mode::kEvent, "farcall_test_peer", "honest", ""},
                      "/nowhere");
  CHECK(absl::IsNotFound(missing.Run(workload, std::nullopt).status()));
}

TEST_CASE("peers that are not there are left out, with the package that they lack") {
  const PeersHere here = FindPeers("/nowhere", std::nullopt);
  CHECK(here.subjects.empty());
  CHECK(here.about.empty());
  REQUIRE_FALSE(here.left_out.empty());
  CHECK(here.left_out.front().find("peer/ucx-shm is left out: ") == 0);
  CHECK(here.left_out.front().find("libucx-dev") != std::string::npos);
}

TEST_CASE("the peers that are here run every workload") {
  const PeersHere here = FindPeers(FARCALL_BIN, std::nullopt);
  CHECK(here.about.size() == here.subjects.size());
  for (const std::string& line : here.left_out) WARN(line);
  for (const auto& peer : here.subjects) {
    for (const Workload& workload :
         {Short(Case::kLatency, 16, 1), Short(Case::kLatency, 4 << 10, 1),
          Short(Case::kLatency, 64 << 10, 1), Short(Case::kThroughput, 32, 64),
          Short(Case::kBulkRequest, 1 << 20, 8), Short(Case::kBulkReply, 1 << 20, 8)}) {
      CAPTURE(peer->transport(), NameOf(workload.kind), workload.bytes);
      const absl::StatusOr<Measurement> measurement = peer->Run(workload, std::nullopt);
      CAPTURE(measurement.status());
      REQUIRE(measurement.ok());
      CHECK(measurement->latency.count() > 0);
      CHECK(measurement->first_error.empty());
      CHECK(measurement->errors == 0);
    }
  }
}

// Makes calls whose replies `answer` writes, and says what was measured.
template <class Answer>
Measurement RunCalls(const Workload& workload, Answer answer) {
  PeerCalls calls(workload, getpid());
  std::vector<uint8_t> request(calls.sizes().request_bytes);
  std::vector<uint8_t> reply(calls.sizes().reply_bytes);
  for (size_t slot = 0; slot < calls.sizes().outstanding; ++slot) {
    uint64_t number = 0;
    do {
      calls.Begin(slot, request);
      answer(number++, request, reply);
    } while (number < 3 && calls.End(slot, reply));
    if (number == 3) CHECK(calls.End(slot, reply));
  }
  bool more = true;
  while (more) {
    calls.Begin(0, request);
    answer(3, request, reply);
    more = calls.End(0, reply);
  }
  absl::StatusOr<Measurement> measurement = std::move(calls).Result();
  REQUIRE(measurement.ok());
  return *std::move(measurement);
}

TEST_CASE("a reply is compared whole once in each slot, by its stamps always") {
  const Workload workload = Short(Case::kBulkReply, 100, 3);
  const PeerAnswers answers{PeerSizes(workload)};
  const auto honest = [&](uint64_t, std::span<const uint8_t> request, std::span<uint8_t> reply) {
    if (!answers.Write(request, reply).ok()) FAIL("the request is refused");
  };
  CHECK(RunCalls(workload, honest).errors == 0);
  const uint64_t at = GENERATE(uint64_t{0}, uint64_t{1});
  const size_t spoiled = GENERATE(size_t{0}, size_t{50}, size_t{99});
  CAPTURE(at, spoiled);
  const Measurement measurement = RunCalls(
      workload, [&](uint64_t number, std::span<const uint8_t> request, std::span<uint8_t> reply) {
        honest(number, request, reply);
        if (number == at) reply[spoiled] ^= uint8_t{1};
      });
  CHECK(measurement.errors == (at == 0 || spoiled != 50 ? 3 : 0));
}

TEST_CASE("a reply says which call it is for, and is for one that was made") {
  PeerCalls calls(Short(Case::kLatency, 32, 4), getpid());
  std::vector<uint8_t> request(32);
  std::vector<uint8_t> last(32);
  for (const size_t slot : {size_t{2}, size_t{0}, size_t{3}}) {
    calls.Begin(slot, request);
    CHECK(calls.SlotOf(request).value_or(99) == slot);
  }
  CHECK(calls.End(3, request));
  calls.Begin(3, last);
  CHECK(calls.SlotOf(last).value_or(99) == 3);
  CHECK_FALSE(calls.SlotOf(request).ok());  // a second reply to the first one
  CHECK_FALSE(calls.SlotOf(std::span(last).first(31)).ok());
  SetStamps(last, StampsFor(1));
  CHECK_FALSE(calls.SlotOf(last).ok());
}

TEST_CASE("a peer's server refuses what is no request") {
  const PeerAnswers answers{PeerSizes(Short(Case::kBulkRequest, 100, 1))};
  std::vector<uint8_t> request(100);
  std::vector<uint8_t> reply(16);
  CHECK(answers.Write(request, reply).ok());
  CHECK(absl::IsInvalidArgument(answers.Write(std::span(request).first(99), reply)));
}

}  // namespace
}  // namespace farcall::bench
