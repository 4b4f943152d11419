// Probe and Blocker of probe.fbs, and a server and a channel for them over loopback.

#ifndef FARCALL_TESTS_RPC_PROBE_H_
#define FARCALL_TESTS_RPC_PROBE_H_

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "farcall/rpc/channel.h"
#include "farcall/rpc/server.h"
#include "farcall/transports/loopback/loopback.h"
#include "probe.rpc.h"

namespace farcall::testing {

class ProbeImpl {
 public:
  absl::Status Do(Context& context, const Ask& request, Reply<Answer>& reply);
  asio::awaitable<absl::Status> Wait(Context& context, Msg<Ask> request, Reply<Answer>& reply);
  absl::Status Object(Context& context, const AskT& request, AnswerT& reply);

  std::atomic<int> ran{0};        // handlers that were entered
  std::atomic<int> cancelled{0};  // coroutines that were cancelled
  std::function<void()> on_do;    // runs inside Do; set before calls
  // Of Wait's "keep": the completion handler that nobody runs, there once `keeps` is true.
  std::shared_ptr<void> kept;
  std::atomic<bool> keeps{false};
  std::atomic<int> destroyed{0};  // frames of "drop" and "keep"

 private:
  asio::awaitable<void> NeverResumed(bool keep);
};

class BlockerImpl {
 public:
  absl::Status Block(Context& context, const Ask& request, Reply<Answer>& reply);

  std::atomic<bool> let_go{false};
  std::atomic<int> ran{0};
  std::function<void()> on_block;  // runs inside Block, deaf to cancellation; set before calls
};

// Waits until `condition` holds; false after `bound`.
template <class Condition>
bool Eventually(Condition condition, Duration bound = std::chrono::seconds(10)) {
  const TimePoint end = Clock::Steady().Now() + bound;
  while (!condition()) {
    if (Clock::Steady().Now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A server with both services at loopback://probe in a network of its own.
struct Stage {
  explicit Stage(ServerOptions options = {});
  Channel Dial(ChannelOptions options = {}) const;

  ProbeImpl probe;
  BlockerImpl blocker;
  std::shared_ptr<Transport> transport;
  Endpoint endpoint;
  std::unique_ptr<Server> server;
};

// A request that asks for `action`.
Builder<Ask> Asking(Probe::Client& client, const std::string& action, uint64_t number = 0,
                    size_t data_bytes = 0);

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_RPC_PROBE_H_
