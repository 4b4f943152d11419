#include "farcall/rpc/server_loop.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/log.h"
#include "farcall/rpc/probe.h"
#include "farcall/rpc/server_session.h"

namespace farcall {
namespace {

// For a peer without calls to close its connection once it was told that the server drains: some
// round trips. One that is stopped or deaf must not hold up a shutdown for longer.
constexpr Duration kPartingTime = std::chrono::seconds(1);

}  // namespace

ServerLoop::ServerLoop(std::shared_ptr<EventLoop> loop, ServerShared& shared)
    : loop_(std::move(loop)), shared_(shared) {}

ServerLoop::~ServerLoop() = default;

void ServerLoop::Accept(std::unique_ptr<Connection> connection) {
  const uint64_t open = shared_.connections_open.fetch_add(1, std::memory_order_relaxed) + 1;
  auto session =
      std::make_unique<ServerSession>(*this, std::move(connection),
                                      SessionOptions{.limits = shared_.options.limits,
                                                     .keepalive = shared_.options.keepalive,
                                                     .authentication = {},
                                                     .list = &tally_.connections});
  ServerSession& accepted = *session;
  places_.emplace(&accepted, sessions_.insert(sessions_.end(), std::move(session)));
  if (open > shared_.options.max_connections) {
    ++tally_.connections_refused;
    accepted.TurnAway(
        absl::ResourceExhaustedError(absl::StrCat("the server has ", open - 1,
                                                  " connections already "
                                                  "(ServerOptions::max_connections)")));
    return;
  }
  accepted.Start();
  ++tally_.connections_accepted;
  Log(LogLevel::kInfo, absl::StrCat("server: connection from ", accepted.peer_address()));
}

void ServerLoop::Bury(ServerSession& session) {
  const auto found = places_.find(&session);
  loop_->Post([dead = std::move(*found->second)] {});
  sessions_.erase(found->second);
  places_.erase(found);
  shared_.connections_open.fetch_sub(1, std::memory_order_release);
}

void ServerLoop::Drain() {
  for (const auto& session : sessions_) session->Drain();
  loop_->timers().Arm(*this, loop_->now() + kPartingTime);
}

void ServerLoop::OnTimer() {
  for (const auto& session : sessions_) session->EndIfIdle();
  loop_->timers().Arm(*this, loop_->now() + kPartingTime);
}

size_t ServerLoop::Cut(const absl::Status& reason) {
  size_t cut = 0;
  for (const auto& session : sessions_) {
    cut += session->Orphan();
    session->End(reason);
  }
  return cut;
}

void ServerLoop::Close() {
  Disarm();
  places_.clear();
  sessions_.clear();
}

absl::Status ServerLoop::Queue(const BoundMethod& method) {
  if (!method.on_workers) return absl::OkStatus();
  const size_t waiting = shared_.waiting_for_workers.fetch_add(1, std::memory_order_relaxed);
  if (waiting < shared_.options.max_waiting_for_workers) return absl::OkStatus();
  shared_.waiting_for_workers.fetch_sub(1, std::memory_order_relaxed);
  return absl::ResourceExhaustedError(absl::StrCat(
      waiting, " calls wait for a worker already (ServerOptions::max_waiting_for_workers)"));
}

void ServerLoop::Dispatch(ServerCall& call) {
  const BoundMethod& method = call.bound();
  ++tally_.calls_started;
  if (!method.on_workers) {
    FARCALL_PROBE(kHandler);
    method.run(method, call);
    return;
  }
  shared_.workers->Post([this, &method, &call] {
    shared_.waiting_for_workers.fetch_sub(1, std::memory_order_relaxed);
    if (call.context().cancelled()) {
      MessageBuilder no_reply(call.pool(), 0);
      call.Finish(absl::CancelledError("cancelled while it waited for a worker"), no_reply);
    } else {
      method.run(method, call);
    }
  });
}

ServerCall& ServerLoop::TakeCall() {
  if (free_calls_.empty()) {
    free_calls_.reserve(calls_.size() + 1);  // giving one back allocates nothing
    calls_.push_back(std::make_unique<ServerCall>(*this));
    return *calls_.back();
  }
  ServerCall& call = *free_calls_.back();
  free_calls_.pop_back();
  return call;
}

void ServerLoop::Forget(const PeerIdentity& peer) {
  for (ServerCall* const call : free_calls_) {
    if (call->peer_.get() == &peer) call->Forget();
  }
}

void ServerLoop::GiveBack(ServerCall& call) {
  call.Clear();
  free_calls_.push_back(&call);
}

}  // namespace farcall
