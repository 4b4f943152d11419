// MeasureThreshold: from which size on a payload is better read by the peer than sent to it, on
// this machine and device.

#ifndef FARCALL_TRANSPORTS_RDMA_MEASURE_H_
#define FARCALL_TRANSPORTS_RDMA_MEASURE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/endpoint.h"
#include "farcall/transports/rdma/rdma.h"

namespace farcall {

// A value for RdmaOptions::threshold: the size up to which messages cost less eagerly than by
// rendezvous, of 0, the powers of two from 64 on that are below options.eager_bytes, and that.
//
// Makes the device, connects this process to itself through it, listening at `at`, which nobody
// else uses ("shm://threshold-4711"), and moves messages of each size on both roads in turn, for
// 100 ms or so and never beyond `at_most`; blocks as long, spinning. The answer is that by which
// the medians add up to the least.
//
// What it knows and what it does not: both ends run on this thread, so it adds up what they cost,
// with warm memory, and sees neither the wake-up of a sleeper (the same on both roads, but the
// rendezvous has two more messages to wake for) nor a network. Where the roads cost about the same,
// two runs may differ by a size or two; so may runs beside a busy neighbour. It is meant to be run
// at length on a quiet machine and its answer kept, not to be run at every start.
//
// INVALID_ARGUMENT: options out of bounds. Whatever the device says when it cannot be used;
// DEADLINE_EXCEEDED: it, or a machine with other things to do, was too slow for `at_most`.
absl::StatusOr<uint32_t> MeasureThreshold(const Endpoint& at, const RdmaDeviceFactory& device,
                                          const RdmaOptions& options = {},
                                          Duration at_most = std::chrono::milliseconds(200));

}  // namespace farcall

#endif  // FARCALL_TRANSPORTS_RDMA_MEASURE_H_
