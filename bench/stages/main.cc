// farcall_stages ADDRESS event|busy BYTES MILLISECONDS CLIENT_CORE SERVER_CORE
//
// Where the time of a call goes: blocking calls of the Echo service, with so many bytes there and
// back, client and server in this process, over a library that is compiled with probes. Prints one
// line, which demo/stages.cc reads. A core of -1: not pinned.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "farcall/bench/demo/echo_calls.h"
#include "farcall/bench/demo/echo_pair.h"
#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/cores.h"
#include "farcall/bench/stages/probes.h"

namespace farcall::bench {
namespace {

constexpr std::chrono::milliseconds kWarmUp(50);

// The ends of what a call passes, in order, and of which stage each is the end.
struct Passed {
  Side side;
  Probe point;
  double Stages::*stage;
};
constexpr std::array<Passed, 15> kWay = {{
    {Side::kClient, Probe::kHanded, &Stages::build},
    {Side::kClient, Probe::kPosted, &Stages::post},
    {Side::kServer, Probe::kPolls, &Stages::wire},
    {Side::kServer, Probe::kFound, &Stages::poll},
    {Side::kServer, Probe::kAdmitted, &Stages::poll},
    {Side::kServer, Probe::kWhole, &Stages::payload},
    {Side::kServer, Probe::kVerified, &Stages::verify},
    {Side::kServer, Probe::kHandler, &Stages::dispatch},
    {Side::kServer, Probe::kHandled, &Stages::handler},
    {Side::kServer, Probe::kHanded, &Stages::reply},
    {Side::kServer, Probe::kPosted, &Stages::post},
    {Side::kClient, Probe::kPolls, &Stages::wire},
    {Side::kClient, Probe::kFound, &Stages::poll},
    {Side::kClient, Probe::kAdmitted, &Stages::poll},
    {Side::kClient, Probe::kWhole, &Stages::payload},
}};

struct OneCall {
  uint64_t whole = 0;  // ticks, as those of its stages
  Stages stages;
};

// Two sides may be busy at once: what overlaps counts for what was first on the way.
OneCall Divide(uint64_t begin, uint64_t end) {
  OneCall call{.whole = end - begin, .stages = {}};
  uint64_t at = begin;
  for (const Passed& passed : kWay) {
    const uint64_t next = std::clamp(MarkOf(passed.side, passed.point), at, end);
    call.stages.*passed.stage += static_cast<double>(next - at);
    at = next;
  }
  call.stages.finish += static_cast<double>(end - at);
  return call;
}

double TicksPerUs() {
  const uint64_t ticks = Ticks();
  const uint64_t ns = NowNs();
  while (NowNs() < ns + 10'000'000) {
  }
  return static_cast<double>(Ticks() - ticks) / (static_cast<double>(NowNs() - ns) / 1e3);
}

// What one probe costs, undisturbed.
double ProbeTicks() {
  constexpr int kTimes = 1000;
  uint64_t least = UINT64_MAX;
  for (int batch = 0; batch < 100; ++batch) {
    const uint64_t begin = Ticks();
    for (int i = 0; i < kTimes; ++i) PassProbe(Probe::kVerified);
    least = std::min(least, Ticks() - begin);
  }
  return static_cast<double>(least) / kTimes;
}

absl::StatusOr<std::vector<OneCall>> Run(const Channel& channel, size_t bytes,
                                         std::chrono::milliseconds duration) {
  absl::StatusOr<EchoCalls> calls = EchoCalls::Make(channel, {.bytes = bytes});
  if (!calls.ok()) return calls.status();
  uint64_t number = 1;
  const auto warm = std::chrono::steady_clock::now() + kWarmUp;
  while (std::chrono::steady_clock::now() < warm) {
    if (absl::Status status = calls->Call(number++); !status.ok()) return status;
  }
  std::vector<OneCall> all;
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    const uint64_t begin = Ticks();
    if (absl::Status status = calls->Call(number++); !status.ok()) return status;
    all.push_back(Divide(begin, Ticks()));
  }
  return all;
}

// The middle half by their whole time: what disturbs some calls is in none of it, and the stages of
// an average add up, as medians do not.
Stages AverageOf(std::vector<OneCall>& calls, double ticks_per_us) {
  std::sort(calls.begin(), calls.end(),
            [](const OneCall& a, const OneCall& b) { return a.whole < b.whole; });
  const size_t first = calls.size() / 4;
  const size_t last = calls.size() - first;
  Stages average;
  for (const auto& [name, stage] : kStages) {
    for (size_t i = first; i < last; ++i) average.*stage += calls[i].stages.*stage;
    average.*stage /= static_cast<double>(last - first) * ticks_per_us;
  }
  return average;
}

int Main(int argc, char** argv) {
  if (argc != 7) {
    std::fputs(
        "usage: farcall_stages ADDRESS event|busy BYTES MILLISECONDS CLIENT_CORE "
        "SERVER_CORE\n",
        stderr);
    return 2;
  }
  const Mode mode = std::string_view(argv[2]) == NameOf(Mode::kBusy) ? Mode::kBusy : Mode::kEvent;
  const int client_core = std::atoi(argv[5]);
  const int server_core = std::atoi(argv[6]);
  absl::Status status;
  if (client_core >= 0) status = PinThisThread(client_core);
  absl::StatusOr<std::unique_ptr<EchoPair>> pair = EchoPair::Make(
      argv[1], mode, server_core >= 0 ? std::optional<int>(server_core) : std::nullopt);
  if (status.ok()) status = pair.status();
  absl::StatusOr<std::vector<OneCall>> calls;
  if (status.ok()) {
    SetSide(Side::kClient);
    calls = Run((*pair)->channel(), static_cast<size_t>(std::atoll(argv[3])),
                std::chrono::milliseconds(std::atoi(argv[4])));
    status = calls.status();
  }
  if (!status.ok() || calls->empty()) {
    std::fprintf(stderr, "farcall_stages: %s\n",
                 status.ok() ? "no call ended within the time given" : status.ToString().c_str());
    return EXIT_FAILURE;
  }
  const double ticks_per_us = TicksPerUs();
  const Stages stages = AverageOf(*calls, ticks_per_us);
  // In order by now.
  const double median_us = static_cast<double>((*calls)[calls->size() / 2].whole) / ticks_per_us;
  std::printf("stages %zu %.6f %.6f", calls->size(), median_us,
              ProbeTicks() / ticks_per_us * static_cast<double>(kWay.size()));
  for (const auto& [name, stage] : kStages) std::printf(" %.6f", stages.*stage);
  std::printf("\n");
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace farcall::bench

int main(int argc, char** argv) { return farcall::bench::Main(argc, argv); }
