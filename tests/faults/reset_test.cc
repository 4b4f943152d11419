// A connection that is reset, or closed, in the middle of large payloads.

#include <catch2/catch.hpp>
#include <random>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/faults/proxy.h"
#include "farcall/tests/faults/scene.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/services/journal.h"
#include "farcall/transports/dial.h"

namespace farcall::faults {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Eventually;

constexpr int kCuts = 6;
constexpr size_t kPayload = size_t{700} << 10;  // some chunks, the last not full

// Cuts a loaded connection again and again, at bytes that `seed` chooses.
void CutUnderLoad(const std::string& scheme, Proxy::Way way, Proxy::Cut cut, unsigned seed) {
  const ServerProcess server({.scheme = scheme});
  const Folder folder;
  Proxy proxy(*ParseEndpoint(folder.AddressFor(scheme)), server.endpoint());
  const hostile::HealthyCaller healthy(server.endpoint());
  auto channel =
      Dial(proxy.address().ToString(),
           {.backoff = {.first = milliseconds(1), .max = milliseconds(20)}, .limits = {}});
  REQUIRE(channel.ok());
  std::mt19937 random(seed);
  // About what 64 calls in flight are: not at their first bytes each time.
  std::uniform_int_distribution<uint64_t> bytes(1, 20 * kPayload);
  const bool requests = way == Proxy::Way::kRequests;
  testing::JournalLoad load(*channel, {.outstanding = 64,
                                       .work_us = 0,
                                       .data_bytes = requests ? kPayload : 0,
                                       .reply_bytes = requests ? 0 : kPayload,
                                       .timeout = seconds(30)});
  for (uint64_t made = 0; made < kCuts; ++made) {
    const uint64_t succeeded = load.succeeded();
    proxy.CutAfter(way, bytes(random), cut);
    REQUIRE(Eventually([&] { return proxy.cuts() > made; }, seconds(30)));
    REQUIRE(Eventually([&] { return load.succeeded() > succeeded; }, seconds(30)));  // recovered
  }
  REQUIRE(load.Stop(seconds(40)));

  const testing::JournalVerdict verdict = testing::Judge(load.ends(), server.Ran());
  CHECK(verdict.trouble == "");
  CHECK(verdict.ok >= kCuts);
  CHECK(verdict.unknown + verdict.never_ran > 0);  // else nothing was under way
  for (const auto& [number, statuses] : load.ends()) {
    if (statuses[0].ok()) continue;
    INFO(statuses[0]);
    CHECK(absl::IsUnavailable(statuses[0]));
    CHECK(std::string(statuses[0].message()).find(proxy.address().ToString()) != std::string::npos);
  }
  CHECK(channel->info().stats.connects <= kCuts + 1);  // fewer: one was cut within its HELLO
  CHECK(healthy.Trouble() == "");
}

TEST_CASE(
    "reset in the middle of chunks, 64 calls in flight: each ends once and says what it did") {
  const hostile::LogLines log;
  const auto seed = std::random_device()();
  INFO("seed=" << seed);
  const std::string scheme = GENERATE("tcp", "unix");
  const Proxy::Way way = GENERATE(Proxy::Way::kRequests, Proxy::Way::kReplies);
  CutUnderLoad(scheme, way, Proxy::Cut::kReset, seed);
}

TEST_CASE("closed in the middle of chunks, 64 calls in flight: likewise") {
  const hostile::LogLines log;
  const auto seed = std::random_device()();
  INFO("seed=" << seed);
  const std::string scheme = GENERATE("tcp", "unix");
  const Proxy::Way way = GENERATE(Proxy::Way::kRequests, Proxy::Way::kReplies);
  CutUnderLoad(scheme, way, Proxy::Cut::kClose, seed);
}

}  // namespace
}  // namespace farcall::faults
