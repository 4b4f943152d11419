// Constants of the verbs device, each with its reason.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_LIMITS_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace farcall::verbs {

// Private data that every connection manager carries in a request: InfiniBand's has 92 bytes, of
// which the kernel's connection manager takes 36 for the addresses.
inline constexpr uint32_t kMaxPrivateData = 56;

// Asked for when a queue pair says no less; adapters take between 60 and some 900 bytes, and what
// one refuses is asked for again by half.
inline constexpr uint32_t kMaxInline = 512;

// Work requests that are linked on the stack and rung for at once: more are rung for again.
inline constexpr size_t kRequestsPerDoorbell = 64;
// Completions taken in one call of the provider.
inline constexpr size_t kCompletionsPerPoll = 32;
// Notices that are acknowledged together: each time takes a lock.
inline constexpr unsigned kNoticesPerAck = 64;

// Connection events handled before their taker gets its turn again.
inline constexpr int kEventsPerNext = 64;
// Requests for connections that wait in the kernel: beyond them a client is refused.
inline constexpr int kBacklog = 512;
// For each of the two steps, address and route: the kernel's own bounds are minutes.
inline constexpr int kResolveStepMs = 1500;

// A queue pair in ERR flushes within microseconds. What it has not flushed after so long without a
// completion, it never took: a receive that was posted into shared memory just when it failed.
inline constexpr std::chrono::milliseconds kFlushGrace{200};

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_LIMITS_H_
