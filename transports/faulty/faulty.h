// Faulty: another transport with its accidents brought forward.
//
// A decorator that delays, slows down, cuts and refuses by a plan and a seed. It never does what
// rpc/transport.h forbids: what it lets through is whole, once and in order, what it reports unsent
// was not sent, and a connection that it cuts says so to both ends. With a manual clock and stepped
// loops the same seed gives the same accidents at the same moments.

#ifndef FARCALL_TRANSPORTS_FAULTY_FAULTY_H_
#define FARCALL_TRANSPORTS_FAULTY_FAULTY_H_

#include <cstdint>
#include <memory>

#include "farcall/rpc/clock.h"
#include "farcall/rpc/transport.h"

namespace farcall {

struct FaultPlan {
  // Happens with this probability (0 to 1), and takes between `least` and `most`.
  struct Chance {
    double probability = 0;
    Duration least{};
    Duration most{};
  };

  // ---- delays; on the loop's timers, so up to one tick of the wheel longer ----
  Chance connect{};  // before the inner transport is asked; the deadline holds
  Chance send{};     // a message, and all that were sent after it, before it may leave
  Chance deliver{};  // a whole message before OnMessage; small ones behind it wait too
  Chance done{};     // of Send
  // Payloads become whole no faster than this, small and large ones each; 0: as fast as they come.
  uint64_t bytes_per_second = 0;

  // ---- accidents ----
  double refuse_connect = 0;    // a connect ends UNAVAILABLE
  double cut_on_send = 0;       // the connection is cut about a Send: before it, after it, or while
  double cut_on_receive = 0;    // …about a message's Admit or OnMessage
  uint64_t cut_at_send = 0;     // the same for the n-th Send of each connection; 0: for none
  uint64_t cut_at_receive = 0;  // …for the n-th Admit
  Chance cut_after{};           // the connection is cut when it is that old

  // Of messages held back and given to the inner transport together. Not above its own.
  TransportLimits limits{};
};

// Every connection, connected or accepted, gets accidents of its own from `seed`. Thread-safe as
// far as `inner` is; ConnectionInfo::transport is the inner one's.
std::shared_ptr<Transport> MakeFaultyTransport(std::shared_ptr<Transport> inner, FaultPlan plan,
                                               uint64_t seed);

}  // namespace farcall

#endif  // FARCALL_TRANSPORTS_FAULTY_FAULTY_H_
