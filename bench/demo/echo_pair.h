// A client and a server of the Echo service in this process, whose connections can be looked at.
#ifndef FARCALL_BENCH_DEMO_ECHO_PAIR_H_
#define FARCALL_BENCH_DEMO_ECHO_PAIR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/bench/measure/record.h"
#include "farcall/bench/measure/workload.h"
#include "farcall/rpc/channel.h"
#include "farcall/rpc/server.h"
#include "farcall/services/echo/echo_impl.h"

namespace farcall::bench {

class WatchedTransport;

// The server's threads are on `server_core`, unless empty. Not thread-safe.
class EchoPair {
 public:
  // Listens at `address` and connects to it.
  static absl::StatusOr<std::unique_ptr<EchoPair>> Make(const std::string& address, Mode mode,
                                                        std::optional<int> server_core);

  const Channel& channel() const { return *channel_; }

  // What the connections of both sides do for a blocking call of a latency workload: those of Costs
  // that connections count, on average over some hundreds of calls on a warm connection.
  absl::StatusOr<Costs> CountOperations(const Workload& workload);

 private:
  struct Totals;

  EchoPair() = default;
  absl::StatusOr<Totals> Read() const;

  services::EchoImpl echo_;
  std::shared_ptr<WatchedTransport> transport_;
  std::optional<Server> server_;
  std::optional<Channel> channel_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_ECHO_PAIR_H_
