// Bugs on purpose, so that the simulation can be shown to find them (tests/simulation/README.md).
//
// FARCALL_PLANTED(name) is the constant false everywhere but in the one test program that is
// compiled with FARCALL_PLANT_BUGS, where it asks which bug the command line chose. For .cc files
// only: it is not installed, and what headers define must be the same in both.

#ifndef FARCALL_RPC_PLANTED_H_
#define FARCALL_RPC_PLANTED_H_

#ifdef FARCALL_PLANT_BUGS

namespace farcall {

enum class PlantedBug {
  kNone,
  kReplyBySlot,               // a reply is matched by its slot, whatever the generation
  kDeadlineIgnoredInSending,  // a deadline that passes while the request is being sent
  kCancelIgnoredInAwaiting,   // a cancellation while the reply is awaited
  kNotSentAfterItLeft,        // "not sent" of a request that left
  kBufferLostOnWithdraw,      // the memory of a request that was taken back in time
  kCallLostOnClose,           // a call that comes back to a closed channel never ends
  kDrainForgetsCalls,         // a connection that drains is closed under its calls
  kDrainForgetsIdlePeers,     // a peer without calls is neither told nor parted from
  kServerTakesTooMany,        // max_calls_in_flight
  kChannelKeepsTooMany,       // max_waiting_calls
  kErrorsDidNotRun,           // a handler's error is sent with NOT_RUN
};
extern PlantedBug planted_bug;  // written before anything else runs

}  // namespace farcall

#define FARCALL_PLANTED(name) (::farcall::planted_bug == ::farcall::PlantedBug::name)
#else
#define FARCALL_PLANTED(name) false
#endif

#endif  // FARCALL_RPC_PLANTED_H_
