// Runs a workload over channels to an Echo service.
#ifndef FARCALL_BENCH_DEMO_ECHO_RUN_H_
#define FARCALL_BENCH_DEMO_ECHO_RUN_H_

#include <span>

#include "absl/status/statusor.h"
#include "farcall/bench/measure/recorder.h"
#include "farcall/bench/measure/workload.h"
#include "farcall/rpc/channel.h"

namespace farcall::bench {

// Compares some calls in full, warms up, and measures. The calling thread does the work of the
// client: it makes blocking calls where one is outstanding; where there are more it drives the
// channel's loop, and each call that ends starts the next one from its callback, or, at part of the
// load, each is started when its time has come. Ends with the first call that fails; wrong replies
// are counted. `channels`, which share a loop, are those that the workload asks for.
absl::StatusOr<Measurement> RunEcho(std::span<const Channel> channels, const Workload& workload,
                                    const Meters& meters);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_ECHO_RUN_H_
