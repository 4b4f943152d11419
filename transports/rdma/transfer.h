// The life of a rendezvous transfer, as two tables: what its sender and its receiver do at each
// event in each state. Pure data; OutgoingTransfers and IncomingTransfers walk it.
//
//   sender:    BUILT -> OFFERED (the RTS is out) -> [ZOMBIE: given up, still offered] -> FIN ->
//              REVOKING -> gone
//   receiver:  WAITING (for memory) -> READING -> FIN, deliver
//                                      READING -> STOPPING (given up, READs out) -> FIN
//
// From the RTS on the payload's memory stays as it is until FIN and until the device has taken the
// peer's right to read it back, or the queue pair is destroyed. A deadline or a cancel ends the
// call at once and the transfer later: that is a zombie. Likewise a sink lives until the last READ
// into it has completed. When the connection is lost, each side keeps what the device may still
// touch until the queue pair is destroyed (LOST).

#ifndef FARCALL_TRANSPORTS_RDMA_TRANSFER_H_
#define FARCALL_TRANSPORTS_RDMA_TRANSFER_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace farcall::rdma {

// What an event means in a state. A bug is 0: g++ 12 zeroes elements of MakeTable's array that
// should have their defaults.
enum class Verdict : uint8_t {
  kBug,        // it cannot happen
  kStep,       // go to the next state, with its actions
  kIgnore,     // too late to matter
  kViolation,  // the peer broke a rule
};

template <typename StateType>
struct Step {
  Verdict verdict = Verdict::kBug;
  StateType to = {};
  uint8_t actions = 0;  // bits
};

template <typename StateType, typename EventType>
struct Row {
  StateType from;
  EventType event;
  Step<StateType> step;
};

// By [state][event]. What no row names is a bug.
template <size_t States, size_t Events, typename StateType, typename EventType, size_t Rows>
constexpr auto MakeTable(const Row<StateType, EventType> (&rows)[Rows]) {
  std::array<std::array<Step<StateType>, Events>, States> table = {};
  for (const auto& row : rows) {
    table[static_cast<size_t>(row.from)][static_cast<size_t>(row.event)] = row.step;
  }
  return table;
}

// ---- the sender's side ----

namespace outgoing {

enum class State : uint8_t { kBuilt, kOffered, kZombie, kRevoking, kLost, kEnded };
inline constexpr size_t kStates = 5;  // kEnded is none: the transfer is forgotten

enum class Event : uint8_t {
  kPosted,     // the RTS was posted: the peer may read from now on
  kFin,        // the peer will not read it again
  kWithdraw,   // the call ended: a deadline, a cancel
  kRevoked,    // the device lets nobody read it any more
  kError,      // the queue pair is in error: nothing is sent or received any more
  kDestroyed,  // the queue pair is gone
};
inline constexpr size_t kEvents = 6;

enum Action : uint8_t {
  kFinish = 1,      // run `done`
  kSendCancel = 2,  // tell the peer to stop
  kRevoke = 4,      // take the right to read back; kRevoked follows
  kRelease = 8,     // nobody touches the payload any more
};

namespace table {
using enum State;
using enum Event;
using S = Step<State>;
inline constexpr S kTooLate = {Verdict::kIgnore, {}, 0};
inline constexpr S kNoSuchOffer = {Verdict::kViolation, {}, 0};
constexpr S To(State to, int actions = 0) {
  return {Verdict::kStep, to, static_cast<uint8_t>(actions)};
}

inline constexpr Row<State, Event> kRows[] = {
    {kBuilt, kPosted, To(kOffered)},
    {kBuilt, kFin, kNoSuchOffer},
    {kBuilt, kWithdraw, To(kEnded, kFinish)},  // unsent: the message goes back with `done`
    {kBuilt, kError, To(kEnded, kFinish)},

    {kOffered, kFin, To(kRevoking, kFinish | kRevoke)},
    {kOffered, kWithdraw, To(kZombie, kFinish | kSendCancel)},
    {kOffered, kError, To(kLost, kFinish)},

    {kZombie, kFin, To(kRevoking, kRevoke)},
    {kZombie, kWithdraw, kTooLate},
    {kZombie, kError, To(kLost)},

    {kRevoking, kFin, kNoSuchOffer},  // a second one
    {kRevoking, kWithdraw, kTooLate},
    {kRevoking, kRevoked, To(kEnded, kRelease)},
    {kRevoking, kError, To(kLost)},

    {kLost, kFin, kTooLate},
    {kLost, kWithdraw, kTooLate},
    {kLost, kRevoked, kTooLate},
    {kLost, kError, kTooLate},
    {kLost, kDestroyed, To(kEnded, kRelease)},
};
inline constexpr auto kTable = MakeTable<kStates, kEvents>(kRows);
}  // namespace table

constexpr Step<State> Next(State state, Event event) {
  return table::kTable[static_cast<size_t>(state)][static_cast<size_t>(event)];
}

}  // namespace outgoing

// ---- the receiver's side ----

namespace incoming {

enum class State : uint8_t { kWaiting, kReading, kStopping, kLost, kEnded };
inline constexpr size_t kStates = 4;

enum class Event : uint8_t {
  kMemory,     // there is a sink
  kNoMemory,   // there will be none
  kAbandon,    // this side wants it no more: a deadline, a cancel
  kCancel,     // its sender gave it up
  kArrived,    // the last READ completed: it is whole
  kDrained,    // after kStopReads: no READ of it is out
  kError,      // as the sender's; a READ that failed puts the queue pair in error
  kDestroyed,  // likewise
};
inline constexpr size_t kEvents = 8;

enum Action : uint8_t {
  kStartReads = 1,
  kStopReads = 2,  // post none any more; kDrained follows
  kSendFin = 4,
  kDeliver = 8,   // OnMessage
  kTell = 16,     // OnAbandoned
  kRelease = 32,  // nobody touches the sink any more
};

namespace table {
using enum State;
using enum Event;
using S = Step<State>;
inline constexpr S kTooLate = {Verdict::kIgnore, {}, 0};
constexpr S To(State to, int actions = 0) {
  return {Verdict::kStep, to, static_cast<uint8_t>(actions)};
}
inline constexpr S kGiveUp = To(kEnded, kSendFin | kTell | kRelease);
inline constexpr S kStop = To(kStopping, kStopReads | kTell);

inline constexpr Row<State, Event> kRows[] = {
    {kWaiting, kMemory, To(kReading, kStartReads)},
    {kWaiting, kNoMemory, kGiveUp},
    {kWaiting, kAbandon, kGiveUp},
    {kWaiting, kCancel, kGiveUp},
    {kWaiting, kError, To(kEnded, kRelease)},

    {kReading, kAbandon, kStop},
    {kReading, kCancel, kStop},
    {kReading, kArrived, To(kEnded, kSendFin | kDeliver)},
    {kReading, kError, To(kLost)},

    {kStopping, kAbandon, kTooLate},
    {kStopping, kCancel, kTooLate},
    {kStopping, kDrained, To(kEnded, kSendFin | kRelease)},
    {kStopping, kError, To(kLost)},

    {kLost, kAbandon, kTooLate},
    {kLost, kCancel, kTooLate},
    {kLost, kArrived, kTooLate},
    {kLost, kDrained, kTooLate},
    {kLost, kError, kTooLate},
    {kLost, kDestroyed, To(kEnded, kRelease)},
};
inline constexpr auto kTable = MakeTable<kStates, kEvents>(kRows);
}  // namespace table

constexpr Step<State> Next(State state, Event event) {
  return table::kTable[static_cast<size_t>(state)][static_cast<size_t>(event)];
}

}  // namespace incoming

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_TRANSFER_H_
