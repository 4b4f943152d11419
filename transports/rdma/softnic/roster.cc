#include "farcall/transports/rdma/softnic/roster.h"

#include <algorithm>
#include <utility>

#include "farcall/transports/rdma/softnic/queue_pair.h"

namespace farcall::softnic {
namespace {

// Idle queue pairs that a Poll looks at, one cache line each, when no other is busy; else one, and
// one more for every so many busy ones. So a busy one does not feel a thousand idle ones, and a
// message of one of these waits for a thousand Polls at most, some 30 us.
constexpr size_t kLooks = 8;
// Long enough for a call between two messages to keep its queue pair busy.
constexpr uint32_t kQuietPolls = 256;
// Of so many rounds of looking, one looks at what else may have come: memory that is announced.
constexpr uint32_t kRoundsPerHousekeeping = 16;

}  // namespace

void Roster::Add(Member& member) {
  member.seat = seats_.size();
  seats_.push_back({.member = &member});
  Wake(member.seat);
}

void Roster::Remove(Member& member) {
  if (member.seat < busy_) Swap(member.seat, --busy_);
  Swap(member.seat, seats_.size() - 1);
  seats_.pop_back();
}

void Roster::Swap(size_t one, size_t other) {
  std::swap(seats_[one], seats_[other]);
  seats_[one].member->seat = one;
  seats_[other].member->seat = other;
}

void Roster::Wake(size_t seat) {
  seats_[seat].quiet_polls = 0;
  Swap(seat, busy_++);
}

void Roster::Rest(size_t seat) {
  const SoftQueuePair& pair = *seats_[seat].member->pair;
  seats_[seat].next = pair.next_message(seats_[seat].shows);
  if (!pair.armed()) unarmed_idle_ = true;
  Swap(seat, --busy_);
}

void Roster::Drive() {
  // Backwards: who comes to rest changes places with one that was driven.
  for (size_t i = busy_; i-- != 0;) {
    const bool active = seats_[i].member->pair->Progress();
    Seat& seat = seats_[i];
    seat.quiet_polls = active ? 0 : seat.quiet_polls + 1;
    if (seat.quiet_polls > kQuietPolls) Rest(i);
  }
  if (busy_ != seats_.size()) LookAtIdle();
}

void Roster::LookAtIdle() {
  const size_t wanted = busy_ == 0 ? kLooks : 1 + busy_ / kLooks;
  for (size_t looks = std::min(wanted, seats_.size() - busy_); looks != 0; --looks) {
    if (next_look_ < busy_ || next_look_ >= seats_.size()) {
      next_look_ = busy_;
      ++rounds_;
    }
    const size_t i = next_look_++;
    // Another one's line comes while this Poll and the next do other things.
    if (i + wanted < seats_.size()) __builtin_prefetch(seats_[i + wanted].next);
    const Seat& seat = seats_[i];
    if (seat.next == nullptr) continue;
    SoftQueuePair& pair = *seat.member->pair;
    if (seat.next->load(std::memory_order_acquire) == seat.shows) {
      Wake(i);
      pair.Progress();
    } else if (rounds_ % kRoundsPerHousekeeping == 0) {
      pair.Housekeep();
    }
  }
}

bool Roster::Arm() {
  bool quiet = true;
  for (size_t i = 0; i < busy_; ++i) quiet = seats_[i].member->pair->Arm() && quiet;
  if (!std::exchange(unarmed_idle_, false)) return quiet;
  // Those that wake change places with one that was armed before.
  for (size_t i = busy_; i < seats_.size(); ++i) {
    if (seats_[i].member->pair->Arm()) continue;
    quiet = false;
    Wake(i);
  }
  return quiet;
}

void Roster::FailAll() {
  for (const Seat& seat : seats_) seat.member->pair->Fail();
}

}  // namespace farcall::softnic
