// Runs simulations of many seeds, one after the other, and stops at the first that breaks a rule.
//
//   simulation.seeds [--part <n>/<of>]
//
// FARCALL_SIMULATION_FIRST_SEED and FARCALL_SIMULATION_SEEDS say which; README.md.

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "farcall/rpc/log.h"
#include "farcall/tests/from_environment.h"
#include "farcall/tests/simulation/simulation.h"

// Of sanitizer/common_interface_defs.h, which GCC's packages do not bring along. Absent without a
// sanitizer.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace farcall::simulation {
namespace {

using testing::FromEnvironment;

#ifdef FARCALL_FEWER_SEEDS  // under a sanitizer
constexpr uint64_t kUsualSeeds = 1000;
#else
constexpr uint64_t kUsualSeeds = 10'000;
#endif

// Every so many seeds are run twice: both runs must have the same history.
constexpr uint64_t kRunTwice = 20;

char replay[512];  // how to run the seed at hand again; for a crash, too

// Does only what a signal handler may do.
void SayHowToReplay() {
  const char* const texts[] = {"\nthe simulation crashed; to run it again: ", replay, "\n"};
  for (const char* text : texts) {
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  }
}

void OnCrash(int signal) {
  SayHowToReplay();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void WatchForCrashes() {
  std::signal(SIGABRT, OnCrash);
  if (__sanitizer_set_death_callback != nullptr) {
    return __sanitizer_set_death_callback(SayHowToReplay);  // it has its own report for the others
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, OnCrash);
}

// Of all seeds of a run: the same in every process.
uint64_t digest = 0;

bool RunSeed(uint64_t seed, std::map<std::string, uint64_t>& totals) {
  Simulation simulation(seed);
  if (!simulation.Run()) {
    std::printf("seed %llu: %s\n\nthe last steps:\n%s\nto run it again: %s\n",
                static_cast<unsigned long long>(seed), simulation.ledger().violation().c_str(),
                simulation.history().Last(120).c_str(), replay);
    return false;
  }
  simulation.ledger().CountInto(totals);
  digest = Dice(digest ^ simulation.history().hash()).Throw();
  if (seed % kRunTwice != 0) return true;
  Simulation again(seed);
  again.Run();
  if (again.history().hash() == simulation.history().hash()) return true;
  std::printf("seed %llu has another history when it is run again\nto run it: %s\n",
              static_cast<unsigned long long>(seed), replay);
  return false;
}

int RunSeeds(uint64_t first, uint64_t seeds, const char* program) {
  std::map<std::string, uint64_t> totals;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    std::snprintf(replay, sizeof replay,
                  "FARCALL_SIMULATION_FIRST_SEED=%llu FARCALL_SIMULATION_SEEDS=1 %s",
                  static_cast<unsigned long long>(seed), program);
    if (!RunSeed(seed, totals)) return 1;
  }
  std::printf("%llu seeds from %llu, digest of their histories %016llx; calls by their ends:\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(digest));
  for (const auto& [name, count] : totals) {
    std::printf("%10llu  %s\n", static_cast<unsigned long long>(count), name.c_str());
  }
  return 0;
}

int Main(int argc, char** argv) {
  unsigned part = 1, of = 1;
  const bool has_part = argc == 3 && std::strcmp(argv[1], "--part") == 0 &&
                        std::sscanf(argv[2], "%u/%u", &part, &of) == 2;
  if ((argc != 1 && !has_part) || part < 1 || part > of) {
    std::fprintf(stderr, "usage: %s [--part <n>/<of>]\n", argv[0]);
    return 2;
  }
  const uint64_t first = FromEnvironment("FARCALL_SIMULATION_FIRST_SEED", 1);
  const uint64_t seeds = FromEnvironment("FARCALL_SIMULATION_SEEDS", kUsualSeeds);
  const uint64_t begin = seeds * (part - 1) / of, end = seeds * part / of;
  WatchForCrashes();
  SetLogSink([](LogLevel, std::string_view) {}, LogLevel::kError);
  return RunSeeds(first + begin, end - begin, argv[0]);
}

}  // namespace
}  // namespace farcall::simulation

int main(int argc, char** argv) { return farcall::simulation::Main(argc, argv); }
