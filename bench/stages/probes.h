// When each side of a call passed its probes (rpc/probe.h).
#ifndef FARCALL_BENCH_STAGES_PROBES_H_
#define FARCALL_BENCH_STAGES_PROBES_H_

#include <array>
#include <cstdint>

#include "farcall/rpc/probe.h"

namespace farcall::bench {

enum class Side : uint8_t { kClient, kServer };

// Of the calling thread from now on; of any other thread: kServer.
void SetSide(Side side);

// The processor's counter, the same on all cores.
uint64_t Ticks();

// Of each point the last time that the side passed it, in ticks: of kPosted the last before the
// other side's kAdmitted, else the first since kHanded; of kPolls and kFound those that led to
// kAdmitted. One call is under way at a time: its end says that the marks are there.
uint64_t MarkOf(Side side, Probe point);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_STAGES_PROBES_H_
