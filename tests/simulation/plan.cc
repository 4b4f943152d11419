#include "farcall/tests/simulation/plan.h"

namespace farcall::simulation {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

FaultPlan::Chance SomeDelay(Dice& dice) {
  if (dice.Throw(2) == 0) return {};
  return {.probability = static_cast<double>(dice.Throw(5)) / 10,
          .least = Duration(0),
          .most = milliseconds(1 + dice.Throw(20))};
}

FaultPlan Delays(Dice& dice) {
  FaultPlan faults;
  if (dice.Throw(3) == 0) return faults;
  faults.connect = SomeDelay(dice);
  faults.send = SomeDelay(dice);
  faults.deliver = SomeDelay(dice);
  faults.done = SomeDelay(dice);
  if (dice.Throw(3) == 0) faults.bytes_per_second = 1'000'000 << dice.Throw(6);
  if (dice.Throw(2) == 0) faults.refuse_connect = static_cast<double>(dice.Throw(5)) / 10;
  return faults;
}

void AddCuts(Dice& dice, FaultPlan& faults) {
  const auto rarely = [&] {
    return dice.Throw(2) == 0 ? 0.0 : static_cast<double>(dice.Throw(5)) / 100;
  };
  faults.cut_on_send = rarely();
  faults.cut_on_receive = rarely();
  if (dice.Throw(4) == 0) faults.cut_at_send = 2 + dice.Throw(12);
  if (dice.Throw(4) == 0) faults.cut_at_receive = 2 + dice.Throw(12);
  if (dice.Throw(3) == 0) {
    faults.cut_after = {.probability = 0.5, .least = milliseconds(1), .most = milliseconds(200)};
  }
}

TransportLimits NarrowLimits(Dice& dice) {
  return {.max_queued_bytes = size_t{64 << 10} << dice.Throw(4),
          .max_queued_messages = 4 + dice.Throw(12),
          .max_transfers = 1 + dice.Throw(3)};
}

KeepaliveOptions SomeKeepalive(Dice& dice) {
  return {.handshake_timeout = milliseconds(20 + dice.Throw(200)),
          .ping_after = milliseconds(20 + dice.Throw(500)),
          .ping_timeout = milliseconds(20 + dice.Throw(500))};
}

}  // namespace

Plan::Plan(uint64_t plan_seed) : seed(plan_seed) {
  Dice dice(seed);
  gentle = dice.Throw(3) == 0;
  steps = 40 + dice.Throw(200);
  channels = 1 + dice.Throw(3);
  client_loops = 1 + dice.Throw(2);
  server_loops = 1 + dice.Throw(2);
  large_calls = static_cast<unsigned>(dice.Throw(16));
  far_steps = static_cast<unsigned>(dice.Throw(10));

  client_faults = Delays(dice);
  server_faults = Delays(dice);
  client_pool_bytes = server_pool_bytes = size_t{64} << 20;
  // Without jitter: a channel throws that from the machine's clock.
  channel.backoff = {.first = milliseconds(1 + dice.Throw(10)),
                     .max = milliseconds(20 + dice.Throw(100)),
                     .jitter = 0};
  channel.connect_timeout = milliseconds(5 + dice.Throw(50));
  channel.max_waiting_calls = 1 + dice.Throw(20);
  server.loops = 0;
  server.limits.max_calls_in_flight = static_cast<uint32_t>(1 + dice.Throw(8));
  channel.keepalive = server.keepalive = {
      .handshake_timeout = hours(1000), .ping_after = hours(1000), .ping_timeout = hours(1000)};
  if (gentle) return;

  AddCuts(dice, client_faults);
  AddCuts(dice, server_faults);
  if (dice.Throw(2) == 0) channel.keepalive = SomeKeepalive(dice);
  if (dice.Throw(2) == 0) server.keepalive = SomeKeepalive(dice);
  if (dice.Throw(3) == 0) client_limits = client_faults.limits = NarrowLimits(dice);
  if (dice.Throw(3) == 0) server_limits = server_faults.limits = NarrowLimits(dice);
  if (dice.Throw(3) == 0) client_pool_bytes = size_t{256 << 10} << dice.Throw(4);
  if (dice.Throw(3) == 0) server_pool_bytes = size_t{256 << 10} << dice.Throw(4);
  if (dice.Throw(4) == 0) server.limits.max_body_bytes = 30'000 << dice.Throw(4);
  if (dice.Throw(4) == 0) channel.limits.max_body_bytes = 30'000 << dice.Throw(4);
  if (dice.Throw(4) == 0) server.limits.max_attachment_bytes = 30'000;
  if (dice.Throw(4) == 0) channel.limits.max_attachment_bytes = 30'000;
  if (dice.Throw(4) == 0) server.max_connections = 1 + dice.Throw(3);
}

}  // namespace farcall::simulation
