// The simulated servers: one after the other on the same address, some still draining beside the
// next.

#include <utility>

#include "farcall/tests/simulation/simulation.h"

namespace farcall::simulation {

Simulation::Host* Simulation::Listening() {
  return hosts_.empty() || hosts_.back()->draining ? nullptr : hosts_.back().get();
}

void Simulation::Listen() {
  auto host = std::make_unique<Host>();
  host->number = hosts_made_++;
  host->service = std::make_unique<ErrandService>(host->number, ledger_, history_);
  ServerOptions options = plan_.server;
  options.external_loops.assign(loops_.begin() + static_cast<ptrdiff_t>(plan_.client_loops),
                                loops_.end());
  host->server = std::make_unique<Server>(options);
  const absl::Status added = host->server->Add(Errands::Bind(*host->service));
  ledger_.Require(added.ok(), added.ToString());
  const auto listens = host->server->Listen(server_transport_, *ParseEndpoint("loopback://server"));
  ledger_.Require(listens.ok(), listens.status().ToString());
  history_.Add(Did::kListen, host->number, listens.ok() ? 1 : 0);
  hosts_.push_back(std::move(host));
}

void Simulation::Drain() {
  Host* host = Listening();
  if (host == nullptr) return;
  history_.Add(Did::kDrain, host->number);
  host->draining = true;
  host->server->Drain();
}

// Without a grace period. Handlers that take no notice of their callers are let go before: Shutdown
// waits for them.
void Simulation::Kill(Host& host) {
  history_.Add(Did::kKill, host.number);
  ledger_.Disturb();
  host.service->Close();
  host.server.reset();
  std::erase_if(hosts_, [&host](const auto& each) { return each.get() == &host; });
}

void Simulation::LetSomeGo() {
  for (const auto& host : hosts_) {
    if (host->service->waiting() > 0 && dice_.Throw(2) == 0) {
      host->service->LetGo(dice_.Throw(host->service->waiting()));
    }
  }
}

void Simulation::RemoveIdle() {
  std::erase_if(hosts_, [this](const std::unique_ptr<Host>& host) {
    if (!host->draining) return false;
    const ServerStats stats = host->server->stats();
    if (stats.connections_open != 0 || stats.calls_running != 0) return false;
    history_.Add(Did::kRemove, host->number);
    host->server.reset();
    return true;
  });
}

}  // namespace farcall::simulation
