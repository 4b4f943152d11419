// What the measured sockets have in common.
#ifndef FARCALL_BENCH_MEASURE_SOCKET_OPTIONS_H_
#define FARCALL_BENCH_MEASURE_SOCKET_OPTIONS_H_

#include "absl/status/status.h"

namespace farcall::bench {

// The congestion control of every measured TCP socket. A kernel's default may be one that paces
// (bbr), which slows large transfers over loopback up to 2.4 times and says nothing about the code
// that is measured; reno is built into every kernel.
inline constexpr char kCongestionControl[] = "reno";

// Sets the congestion control of a TCP socket; connections that a listening socket accepts inherit
// it. Fails where the kernel does not have it or does not allow it to us.
absl::Status SetCongestionControl(int fd, const char* name = kCongestionControl);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_SOCKET_OPTIONS_H_
