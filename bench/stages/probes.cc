#include "farcall/bench/stages/probes.h"

#include <atomic>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include "farcall/bench/measure/clock.h"
#endif

namespace farcall {
namespace bench {
namespace {

using Mark = std::atomic<uint64_t>;  // written by one thread, read by another

struct Marks {
  std::array<Mark, kProbes> at{};
  Mark posted{0};  // as it was last passed, and as it was when the other side found it
  Mark posted_found{0};
  // As they were last passed, by the side's thread alone.
  uint64_t polls = 0;
  uint64_t found = 0, polls_of_found = 0;
};

alignas(128) Marks marks[2];
thread_local Marks* mine = &marks[static_cast<int>(Side::kServer)];

void Set(Mark& mark, uint64_t ticks) { mark.store(ticks, std::memory_order_relaxed); }
uint64_t Get(const Mark& mark) { return mark.load(std::memory_order_relaxed); }
Mark& At(Probe point) { return mine->at[static_cast<size_t>(point)]; }

}  // namespace

void SetSide(Side side) { mine = &marks[static_cast<int>(side)]; }

uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return NowNs();
#endif
}

uint64_t MarkOf(Side side, Probe point) {
  const Marks& of = marks[static_cast<int>(side)];
  if (point == Probe::kPosted) {
    // A kernel may hand a message over before it says that it took it.
    const uint64_t found = Get(of.posted_found);
    if (found >= Get(of.at[static_cast<size_t>(Probe::kHanded)])) return found;
  }
  return Get(of.at[static_cast<size_t>(point)]);
}

}  // namespace bench

void PassProbe(Probe point) {
  using namespace bench;
  const uint64_t now = Ticks();
  switch (point) {
    case Probe::kHanded:
      Set(At(Probe::kPosted), 0);
      break;
    case Probe::kPosted:
      Set(mine->posted, now);
      if (Get(At(Probe::kPosted)) != 0) return;
      break;
    case Probe::kPolls:
      mine->polls = now;
      return;
    case Probe::kFound:
      mine->found = now;
      mine->polls_of_found = mine->polls;
      return;
    case Probe::kAdmitted: {
      Marks& other = marks[mine == &marks[0] ? 1 : 0];
      Set(other.posted_found, Get(other.posted));
      Set(At(Probe::kPolls), mine->polls_of_found);
      Set(At(Probe::kFound), mine->found);
      break;
    }
    default:
      break;
  }
  Set(At(point), now);
}

}  // namespace farcall
