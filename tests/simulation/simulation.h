// Simulation: a world of channels and servers over loopback and faulty, in one thread, that does
// what a seed says. No step of it depends on anything but the seed.

#ifndef FARCALL_TESTS_SIMULATION_SIMULATION_H_
#define FARCALL_TESTS_SIMULATION_SIMULATION_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "farcall/rpc/channel_core.h"
#include "farcall/tests/simulation/errand_service.h"
#include "farcall/tests/simulation/history.h"
#include "farcall/tests/simulation/ledger.h"
#include "farcall/tests/simulation/plan.h"

namespace farcall::simulation {

class Simulation {
 public:
  explicit Simulation(uint64_t seed);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Runs the plan and the end of the world. Whether every rule held.
  bool Run();

  const Ledger& ledger() const { return ledger_; }
  const History& history() const { return history_; }

 private:
  // Who can be cancelled: a call with a callback, or a coroutine with whatever call it waits for.
  struct Caller {
    asio::cancellation_signal cancel;  // outlives the coroutine
    bool cancelled = false;
    CallRecord* call = nullptr;  // its last
  };
  struct Call {
    CallRecord& record;
    Caller& caller;
    CallInfo info = {};
  };
  struct Client {
    std::optional<Channel> channel;
    size_t loop = 0;
  };
  struct Host {
    size_t number = 0;
    std::unique_ptr<ErrandService> service;  // outlives the server
    std::unique_ptr<Server> server;
    bool draining = false;
  };

  // ---- simulation.cc ----
  bool broken() const { return !ledger_.violation().empty(); }
  void Step();
  void StepClients();
  void StepServers();
  void StepTime();
  size_t Turn(size_t loop);
  size_t TurnAll();
  void Advance(Duration time);
  void CheckBounds(size_t loop);
  void End();
  void DrainToTheEnd();
  void CloseAll();
  // Lets time pass until `over()`; breaks `rule` when that does not come.
  template <class Condition>
  void PassUntil(Condition over, const char* rule);
  void CheckNothingIsLeft();

  // ---- clients.cc ----
  void Open(size_t client);
  void CloseClient(size_t client);
  // Starts a call that ends in a callback.
  void StartCall(size_t client);
  // Makes calls one after the other, on the driver of the client's loop.
  asio::awaitable<void> CallInTurn(size_t client, uint64_t calls, Caller& caller);
  void StartCoroutine(size_t client);
  Call& NewCall(size_t client, Caller& caller);
  void ChooseErrand(CallRecord& call);
  uint32_t SomeBytes();
  Duration SomeTimeout();
  absl::StatusOr<Builder<Errand>> Request(const CallRecord& call);
  template <class Token>
  auto Send(Call& call, Builder<Errand>&& request, Token&& token);
  void CancelCall();
  void OnEnded(const Call& call, const absl::StatusOr<Msg<Report>>& reply);

  // ---- servers.cc ----
  Host* Listening();
  void Listen();
  void Drain();
  void Kill(Host& host);
  void LetSomeGo();
  void RemoveIdle();

  const Plan plan_;
  Dice dice_;
  ManualClock clock_;
  History history_{clock_};
  Ledger ledger_{plan_, clock_, history_};

  // The clients' loops, then the servers'.
  std::vector<std::shared_ptr<EventLoop>> loops_;
  std::shared_ptr<BufferPool> client_pool_, server_pool_, unconnected_pool_;
  std::shared_ptr<Transport> client_transport_, server_transport_;

  std::vector<Client> clients_;
  std::vector<std::weak_ptr<ChannelCore>> cores_;  // of all channels that there ever were
  std::deque<Caller> callers_;
  std::deque<Call> calls_;  // by number
  std::vector<std::unique_ptr<Host>> hosts_;
  size_t hosts_made_ = 0;
  bool ending_ = false;  // callbacks only listen now
};

}  // namespace farcall::simulation

#endif  // FARCALL_TESTS_SIMULATION_SIMULATION_H_
