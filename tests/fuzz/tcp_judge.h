// The receiving side of a fuzzed TCP stream: takes, refuses and abandons messages as the dice say,
// and holds what it is told against what the stream says (tcp_stream.h) and the contract
// (rpc/transport.h).

#ifndef FARCALL_TESTS_FUZZ_TCP_JUDGE_H_
#define FARCALL_TESTS_FUZZ_TCP_JUDGE_H_

#include <functional>
#include <span>
#include <vector>

#include "farcall/rpc/transport.h"
#include "farcall/tests/fuzz/tcp_stream.h"

namespace farcall::fuzz {

class Judge {
 public:
  enum class State : uint8_t {
    kAdmitting,  // inside of Admit
    kLive,
    kRefused,
    kAbandoned,  // by us; whether OnAbandoned follows is the caller's to know
    kLost,       // the sender or a lack of memory ended it
    kDelivered,
  };

  // `abandon` and `stop` are what the dice may do in a callback. `pool` is where messages are
  // received; nobody else leases from it.
  Judge(const Told& told, Dice& dice, BufferPool& pool, std::function<void(Ticket)> abandon,
        std::function<void()> stop)
      : told_(told),
        dice_(dice),
        pool_(pool),
        abandon_(std::move(abandon)),
        stop_(std::move(stop)) {}

  Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes);
  void OnMessage(Ticket ticket, Message&& message);
  // One that we did not abandon.
  void OnLost(Ticket ticket, const absl::Status& status);

  State StateOf(Ticket ticket) const { return states_.at(ticket - 1); }
  void SetAbandoned(Ticket ticket) { states_.at(ticket - 1) = State::kAbandoned; }
  size_t admitted() const { return states_.size(); }

  // Between turns: the pool has leased what lives and what is held, and nothing else.
  void CheckMemory();
  // The stream is through, and nobody stopped it: everything that it holds was told.
  void CheckComplete() const;
  void DropHeld() { held_.clear(); }

 private:
  // Does as the dice say.
  void Meddle();
  size_t Slots(const Told::Payload& message) const;

  const Told& told_;
  Dice& dice_;
  BufferPool& pool_;
  const std::function<void(Ticket)> abandon_;
  const std::function<void()> stop_;
  std::vector<State> states_;  // of ticket - 1
  std::vector<std::pair<Ticket, Message>> held_;
  size_t delivered_ = 0;  // of told_.order: those before were delivered, or will never be
};

}  // namespace farcall::fuzz

#endif  // FARCALL_TESTS_FUZZ_TCP_JUDGE_H_
