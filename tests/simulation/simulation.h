// Simulation: a world of channels and servers over loopback and faulty, in one thread, that does
// what a seed says. No step of it depends on anything but the seed.

#ifndef FARCALL_TESTS_SIMULATION_SIMULATION_H_
#define FARCALL_TESTS_SIMULATION_SIMULATION_H_

#include <boost/asio/cancellation_signal.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
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
  // A call under way as its caller holds it.
  struct Call {
    explicit Call(CallRecord& made) : record(made) {}
    CallRecord& record;
    asio::cancellation_signal cancel;
    CallInfo info;
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
  void StartCall(size_t client);
  void Throw(CallRecord& call);
  absl::StatusOr<Builder<Errand>> Request(const CallRecord& call, const Channel& channel);
  uint32_t SomeBytes();
  Duration SomeTimeout();
  void CancelCall();
  void OnEnded(const std::shared_ptr<Call>& call, const absl::StatusOr<Msg<Report>>& reply);

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
  std::deque<std::shared_ptr<Call>> calls_;        // by number
  std::vector<std::unique_ptr<Host>> hosts_;
  size_t hosts_made_ = 0;
  bool ending_ = false;  // callbacks only listen now
};

}  // namespace farcall::simulation

#endif  // FARCALL_TESTS_SIMULATION_SIMULATION_H_
