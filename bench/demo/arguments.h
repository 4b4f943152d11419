// The command line of farcall_demo.
#ifndef FARCALL_BENCH_DEMO_ARGUMENTS_H_
#define FARCALL_BENCH_DEMO_ARGUMENTS_H_

#include <optional>
#include <string>
#include <vector>

namespace farcall::bench {

extern const char kUsage[];

struct Arguments {
  bool help = false;
  bool load = false;
  bool quick = false;
  bool peers = true;
  std::string connect;  // the other host; empty: both sides are here
  std::string adapter;  // of this host, beside perftest; empty: shared memory and TCP
  std::string adapter_host;
  int first_round = 1;
  int rounds = 0;                 // 0: as many as the plan has
  std::vector<std::string> read;  // reports, instead of measuring
  // Empty: none.
  std::string json;
  std::string csv;
  std::string html;
};

// nullopt, with the reason and the usage on standard error, when they make no sense.
std::optional<Arguments> ParseArguments(int argc, char** argv);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_ARGUMENTS_H_
