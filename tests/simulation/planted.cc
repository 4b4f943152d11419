// Shows that the simulation finds bugs: runs seeds with one bug planted until a rule is broken.
//
//   simulation.planted <bug>       fails when no seed finds it; "none": when one finds anything

#include "farcall/rpc/planted.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "farcall/rpc/log.h"
#include "farcall/tests/simulation/simulation.h"

namespace farcall {

PlantedBug planted_bug = PlantedBug::kNone;

namespace simulation {
namespace {

constexpr uint64_t kSeeds = 10'000;
constexpr uint64_t kSeedsWithoutBug = 300;

struct Named {
  const char* name;
  PlantedBug bug;
};
constexpr Named kBugs[] = {
    {"none", PlantedBug::kNone},
    {"reply_by_slot", PlantedBug::kReplyBySlot},
    {"deadline_ignored_in_sending", PlantedBug::kDeadlineIgnoredInSending},
    {"cancel_ignored_in_awaiting", PlantedBug::kCancelIgnoredInAwaiting},
    {"not_sent_after_it_left", PlantedBug::kNotSentAfterItLeft},
    {"buffer_lost_on_withdraw", PlantedBug::kBufferLostOnWithdraw},
    {"call_lost_on_close", PlantedBug::kCallLostOnClose},
    {"drain_forgets_calls", PlantedBug::kDrainForgetsCalls},
    {"drain_forgets_idle_peers", PlantedBug::kDrainForgetsIdlePeers},
    {"server_takes_too_many", PlantedBug::kServerTakesTooMany},
    {"channel_keeps_too_many", PlantedBug::kChannelKeepsTooMany},
    {"errors_did_not_run", PlantedBug::kErrorsDidNotRun},
};

// Whether what came of it is what should.
bool Hunt(const Named& planted) {
  planted_bug = planted.bug;
  const bool wanted = planted.bug != PlantedBug::kNone;
  const uint64_t seeds = wanted ? kSeeds : kSeedsWithoutBug;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Simulation simulation(seed);
    if (simulation.Run()) continue;
    std::printf("%s: found by seed %llu: %s\n%s", planted.name,
                static_cast<unsigned long long>(seed), simulation.ledger().violation().c_str(),
                simulation.history().Last(20).c_str());
    return wanted;
  }
  std::printf("%s: found by none of %llu seeds\n", planted.name,
              static_cast<unsigned long long>(seeds));
  return !wanted;
}

int Main(const char* name) {
  SetLogSink([](LogLevel, std::string_view) {}, LogLevel::kError);
  for (const Named& planted : kBugs) {
    if (std::strcmp(planted.name, name) == 0) return Hunt(planted) ? 0 : 1;
  }
  std::fprintf(stderr, "no bug is called %s\n", name);
  return 2;
}

}  // namespace
}  // namespace simulation
}  // namespace farcall

int main(int argc, char** argv) { return farcall::simulation::Main(argc > 1 ? argv[1] : "none"); }
