#include "farcall/transports/rdma/outgoing_transfers.h"

#include <algorithm>
#include <cassert>

#include "absl/strings/str_cat.h"

namespace farcall::rdma {
namespace {

absl::Status NoSuchOffer(uint32_t transfer) {
  return absl::InvalidArgumentError(
      absl::StrCat("a FIN is for a transfer that is offered, not for ", transfer));
}

}  // namespace

bool OutgoingTransfers::Open(State state) {
  return state == State::kBuilt || state == State::kOffered || state == State::kZombie;
}

uint32_t OutgoingTransfers::Begin(Ticket ticket, Message message, SendDone done) {
  assert(CanBegin());
  last_ = NextId();
  ++open_;
  by_ticket_.emplace(ticket, last_);
  Transfer& transfer = transfers_[last_];
  transfer.ticket = ticket;
  transfer.message = std::move(message);
  transfer.done = std::move(done);
  return last_;
}

void OutgoingTransfers::Posted(uint32_t transfer) {
  (void)Handle(transfers_.find(transfer), Event::kPosted, absl::OkStatus());
}

absl::Status OutgoingTransfers::Fin(uint32_t transfer) {
  const auto at = transfers_.find(transfer);
  if (at == transfers_.end()) return NoSuchOffer(transfer);
  return Handle(at, Event::kFin, absl::OkStatus());
}

bool OutgoingTransfers::Withdraw(Ticket ticket, TimePoint now) {
  const auto found = by_ticket_.find(ticket);
  if (found == by_ticket_.end()) return false;
  const auto at = transfers_.find(found->second);
  at->second.given_up = now;
  (void)Handle(at, Event::kWithdraw, absl::CancelledError("the message was withdrawn"));
  return true;
}

void OutgoingTransfers::Revoked(uint32_t transfer) {
  (void)Handle(transfers_.find(transfer), Event::kRevoked, absl::OkStatus());
}

void OutgoingTransfers::Error(const absl::Status& status) { HandleAll(Event::kError, status); }

void OutgoingTransfers::Destroyed() { HandleAll(Event::kDestroyed, absl::OkStatus()); }

// In the order in which they began, which is that of their tickets.
void OutgoingTransfers::HandleAll(Event event, const absl::Status& status) {
  std::vector<std::pair<Ticket, uint32_t>> all;
  all.reserve(transfers_.size());
  for (const auto& [id, transfer] : transfers_) all.emplace_back(transfer.ticket, id);
  std::sort(all.begin(), all.end());
  for (const auto& [ticket, id] : all) (void)Handle(transfers_.find(id), event, status);
}

absl::Status OutgoingTransfers::Handle(Table::iterator at, Event event,
                                       const absl::Status& status) {
  const Step<State> step = outgoing::Next(at->second.state, event);
  switch (step.verdict) {
    case Verdict::kStep:
      Act(at, step.actions, status);
      Enter(at, step.to);
      return absl::OkStatus();
    case Verdict::kViolation:
      return NoSuchOffer(at->first);
    case Verdict::kBug:
      assert(false);
      return absl::OkStatus();
    case Verdict::kIgnore:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

void OutgoingTransfers::Act(Table::iterator at, uint8_t actions, const absl::Status& status) {
  auto& [id, transfer] = *at;
  if ((actions & outgoing::kFinish) != 0) {
    Action& action = actions_.emplace_back();
    action.what = outgoing::kFinish;
    action.transfer = id;
    action.done = std::move(transfer.done);
    action.result.status = status;
    action.result.sent = transfer.state != State::kBuilt;
    if (!action.result.sent) action.result.message = std::move(transfer.message);
    by_ticket_.erase(transfer.ticket);
  }
  for (const outgoing::Action what : {outgoing::kSendCancel, outgoing::kRevoke}) {
    if ((actions & what) == 0) continue;
    Action& action = actions_.emplace_back();
    action.what = what;
    action.transfer = id;
  }
  if ((actions & outgoing::kRelease) != 0) {
    Action& action = actions_.emplace_back();
    action.what = outgoing::kRelease;
    action.transfer = id;
    action.message = std::move(transfer.message);
  }
}

void OutgoingTransfers::Enter(Table::iterator at, State to) {
  auto& [id, transfer] = *at;
  if (Open(transfer.state) && !Open(to)) --open_;
  if (transfer.state == State::kZombie) {
    zombies_.erase({transfer.given_up, id});
    zombie_bytes_ -= transfer.message.held_bytes();
  }
  transfer.state = to;
  if (to == State::kZombie) {
    zombies_.emplace(transfer.given_up, id);
    zombie_bytes_ += transfer.message.held_bytes();
  }
  if (to == State::kEnded) transfers_.erase(at);
}

absl::Status OutgoingTransfers::CheckZombies(TimePoint now) const {
  if (zombie_bytes_ > limits_.max_zombie_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the peer has not said that it is done with ", zombies_.size(),
                     " payloads of ", zombie_bytes_, " bytes that were given up; at most ",
                     limits_.max_zombie_bytes, " bytes are kept for that"));
  }
  if (!zombies_.empty() && now - zombies_.begin()->first > limits_.max_zombie_age) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the peer has not said that it is done with a payload (transfer ", zombies_.begin()->second,
        ") that was given up ",
        std::chrono::duration_cast<std::chrono::seconds>(now - zombies_.begin()->first).count(),
        " s ago"));
  }
  return absl::OkStatus();
}

}  // namespace farcall::rdma
