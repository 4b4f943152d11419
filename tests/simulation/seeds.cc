// Runs simulations of many seeds, one after the other, and stops at the first that breaks a rule.
//
//   simulation.seeds [--part <n>/<of>] [--bug <name>]
//
// FARCALL_SIMULATION_FIRST_SEED and FARCALL_SIMULATION_SEEDS say which; README.md.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "farcall/rpc/log.h"
#include "farcall/tests/simulation/simulation.h"

namespace farcall::simulation {
namespace {

#ifdef FARCALL_FEWER_SEEDS  // under a sanitizer
constexpr uint64_t kUsualSeeds = 1000;
#else
constexpr uint64_t kUsualSeeds = 10'000;
#endif

// Every so many seeds are run twice: both runs must have the same history.
constexpr uint64_t kRunTwice = 20;

char replay[512];  // how to run the seed at hand again; for a crash, too

void OnCrash(int signal) {
  // Only what a signal handler may do.
  const char* const text[] = {"the simulation crashed; to run it again: ", replay, "\n"};
  for (const char* part : text) {
    if (fwrite(part, 1, strlen(part), stderr) == 0) break;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

uint64_t FromEnvironment(const char* name, uint64_t usual) {
  const char* text = std::getenv(name);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
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

int Main(int argc, char** argv) {
  uint64_t first = FromEnvironment("FARCALL_SIMULATION_FIRST_SEED", 1);
  uint64_t seeds = FromEnvironment("FARCALL_SIMULATION_SEEDS", kUsualSeeds);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--part") == 0) {
      unsigned part = 1, of = 1;
      if (std::sscanf(argv[i + 1], "%u/%u", &part, &of) != 2 || part < 1 || part > of) return 2;
      const uint64_t begin = seeds * (part - 1) / of, end = seeds * part / of;
      first += begin;
      seeds = end - begin;
    } else {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, OnCrash);
  SetLogSink([](LogLevel, std::string_view) {}, LogLevel::kError);
  std::map<std::string, uint64_t> totals;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    std::snprintf(replay, sizeof replay,
                  "FARCALL_SIMULATION_FIRST_SEED=%llu FARCALL_SIMULATION_SEEDS=1 %s",
                  static_cast<unsigned long long>(seed), argv[0]);
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

}  // namespace
}  // namespace farcall::simulation

int main(int argc, char** argv) { return farcall::simulation::Main(argc, argv); }
