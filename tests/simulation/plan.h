// Plan: everything about one simulated world that does not change while it runs, thrown from its
// seed.

#ifndef FARCALL_TESTS_SIMULATION_PLAN_H_
#define FARCALL_TESTS_SIMULATION_PLAN_H_

#include <cstddef>
#include <cstdint>

#include "farcall/rpc/channel.h"
#include "farcall/rpc/server.h"
#include "farcall/transports/faulty/dice.h"
#include "farcall/transports/faulty/faulty.h"

namespace farcall::simulation {

using faulty::Dice;

struct Plan {
  explicit Plan(uint64_t plan_seed);

  uint64_t seed;
  // Nothing breaks a connection in such a world, and nothing runs short: a call whose outcome is
  // unknown was given up by its caller or came to its deadline, it was not lost.
  bool gentle = false;

  size_t steps = 0;
  size_t channels = 1;
  size_t client_loops = 1;
  size_t server_loops = 1;

  FaultPlan client_faults, server_faults;
  TransportLimits client_limits, server_limits;  // of the wire
  size_t client_pool_bytes = 0;
  size_t server_pool_bytes = 0;

  ChannelOptions channel;
  ServerOptions server;

  // How many times in a hundred a call is large, and a step in time is far.
  unsigned large_calls = 0;
  unsigned far_steps = 0;
};

}  // namespace farcall::simulation

#endif  // FARCALL_TESTS_SIMULATION_PLAN_H_
