// Ledger: each call of a simulated world as both sides saw it, and the rules that no call may
// break. The first rule that is broken is kept, in words.

#ifndef FARCALL_TESTS_SIMULATION_LEDGER_H_
#define FARCALL_TESTS_SIMULATION_LEDGER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "errand.rpc.h"
#include "farcall/rpc/outcome.h"
#include "farcall/tests/simulation/history.h"
#include "farcall/tests/simulation/plan.h"

namespace farcall::simulation {

struct CallRecord {
  uint64_t number = 0;
  size_t channel = 0;  // its place among the plan's channels
  size_t loop = 0;     // of that channel
  Conduct conduct = Conduct::Answer;
  uint32_t data_bytes = 0, attachment_bytes = 0;
  uint32_t report_bytes = 0, report_attachment_bytes = 0;
  bool stays = false;         // it asks for the service's coroutine
  bool in_coroutine = false;  // its caller is one
  Duration timeout{};         // as the caller says it
  TimePoint deadline{};

  // The caller's side.
  bool prepared = true;  // false: there was no memory for the request
  bool cancelled = false;
  bool closed = false;     // its channel was
  bool disturbed = false;  // a server was shut down at once while it was under way
  int turns = 0;           // of its loop since it was started
  int late_turns = 0;      // of its loop since it was to end
  bool ended = false;
  absl::StatusCode code = absl::StatusCode::kOk;
  Outcome outcome = Outcome::kNotSent;

  // The server's side.
  int ran = 0;
  bool returned = false;
  absl::StatusCode returned_code = absl::StatusCode::kOk;
};

// What a data byte of call `number` is.
constexpr uint8_t Pattern(uint64_t number) { return static_cast<uint8_t>(number * 37 + 11); }
// Whether `bytes` of call `number` are what they were, as far as a look at some of them tells.
bool HoldsPattern(std::span<const std::byte> bytes, uint64_t number);

class Ledger {
 public:
  Ledger(const Plan& plan, const Clock& clock, History& history)
      : plan_(plan), clock_(clock), history_(history) {}

  // ---- the caller's side ----
  CallRecord& NewCall();
  // There was no memory for its request: it does not start.
  void NotPrepared(CallRecord& call);
  void Ended(CallRecord& call, const absl::StatusOr<Msg<Report>>& reply, const Metadata& metadata);
  // Loop `loop` of the clients made a turn.
  void AfterTurn(size_t loop);
  void Close(size_t channel);
  void Disturb();
  // Started and not over.
  const std::vector<CallRecord*>& open() const { return open_; }
  // Those of them that are on the channel as it is now; without the youngest, which may not have
  // come to it yet.
  size_t OpenOn(size_t channel) const;

  // ---- the server's side ----
  // A handler was entered on the connection of `peer`, and is left.
  void Entered(const Errand& errand, const Buffer& attachment, const Context& context,
               size_t server);
  void Left(uint64_t number, const std::string& peer, const absl::Status& status);

  // ---- rules ----
  void Require(bool holds, const std::string& rule) {
    if (!holds && violation_.empty()) violation_ = rule;
  }
  // When all is over.
  void CheckEnd();
  const std::string& violation() const { return violation_; }

  uint64_t calls() const { return calls_.size(); }
  // Of all calls, by code and by outcome; for the summary of a run.
  void CountInto(std::map<std::string, uint64_t>& totals) const;

 private:
  void CheckReply(const CallRecord& call, const Msg<Report>& reply);
  void CheckFailure(const CallRecord& call, const absl::Status& status);
  std::string Describe(const CallRecord& call) const;

  const Plan& plan_;
  const Clock& clock_;
  History& history_;
  std::deque<CallRecord> calls_;  // stays where it is; the number of a call is its index
  std::vector<CallRecord*> open_;
  std::map<std::string, uint32_t> running_;  // handlers by connection
  std::string violation_;
};

}  // namespace farcall::simulation

#endif  // FARCALL_TESTS_SIMULATION_LEDGER_H_
