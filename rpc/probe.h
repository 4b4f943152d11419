// Seams of a call, so that a benchmark can tell where the time of one goes (bench/stages).
//
// FARCALL_PROBE(point) is nothing at all everywhere but in the one program that is compiled with
// FARCALL_PROBES, which is told that a thread passes the point. For .cc files only: it is not
// installed, and what headers define must be the same in both.

#ifndef FARCALL_RPC_PROBE_H_
#define FARCALL_RPC_PROBE_H_

#ifdef FARCALL_PROBES

#include <cstdint>

namespace farcall {

// In the order in which a message passes them, from one side to the other and up to the reply.
enum class Probe : uint8_t {
  kHanded,    // a request or reply is about to be given to the transport
  kPosted,    // the transport has given something to the device or the kernel
  kPolls,     // the transport is about to look whether something is there
  kFound,     // something is
  kAdmitted,  // of a request or reply, whose payload may still be on its way
  kWhole,     // it is here
  kVerified,  // the request's body is what it should be
  kHandler,   // the handler is about to run
  kHandled,   // and has run
};
inline constexpr int kProbes = 9;

void PassProbe(Probe point);

}  // namespace farcall

#define FARCALL_PROBE(point) ::farcall::PassProbe(::farcall::Probe::point)
#else
#define FARCALL_PROBE(point) static_cast<void>(0)
#endif

#endif  // FARCALL_RPC_PROBE_H_
