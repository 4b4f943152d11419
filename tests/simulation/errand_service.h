// ErrandService: the handlers of a simulated server. What waits in one is let go by the plan.

#ifndef FARCALL_TESTS_SIMULATION_ERRAND_SERVICE_H_
#define FARCALL_TESTS_SIMULATION_ERRAND_SERVICE_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <vector>

#include "farcall/tests/simulation/ledger.h"

namespace farcall::simulation {

class ErrandService {
 public:
  ErrandService(size_t server, Ledger& ledger, History& history)
      : server_(server), ledger_(ledger), history_(history) {}

  absl::Status Run(Context& context, const Errand& errand, Reply<Report>& reply);
  asio::awaitable<absl::Status> Stay(Context& context, Msg<Errand> errand, Reply<Report>& reply);

  size_t waiting() const { return waiting_.size(); }
  // Lets the handler at `index` go on in a coming turn of its loop. The oldest is 0.
  void LetGo(size_t index);
  // Lets all go on and no other wait.
  void Close();

 private:
  struct Waiting {
    uint64_t number;
    asio::steady_timer& until;
    bool let_go = false;
  };

  absl::Status Answer(const Errand& errand, Reply<Report>& reply);

  const size_t server_;
  Ledger& ledger_;
  History& history_;
  std::vector<Waiting*> waiting_;  // the oldest first
  bool closed_ = false;
};

}  // namespace farcall::simulation

#endif  // FARCALL_TESTS_SIMULATION_ERRAND_SERVICE_H_
