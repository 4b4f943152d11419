#include "farcall/tests/simulation/ledger.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farcall::simulation {
namespace {

// A call ends in the turn in which its deadline is noticed; one whose message is still with the
// transport ends when that has handed the message back, "within a turn or two" (rpc/transport.h),
// and a handle's end or a start takes a turn to reach the loop.
constexpr int kLateTurns = 4;

std::string Name(absl::StatusCode code) { return absl::StatusCodeToString(code); }

}  // namespace

bool HoldsPattern(std::span<const std::byte> bytes, uint64_t number) {
  if (bytes.empty()) return true;
  const std::byte wanted{Pattern(number)};
  return bytes.front() == wanted && bytes.back() == wanted && bytes[bytes.size() / 2] == wanted;
}

CallRecord& Ledger::NewCall() {
  CallRecord& call = calls_.emplace_back();
  call.number = calls_.size() - 1;
  open_.push_back(&call);
  return call;
}

void Ledger::NotPrepared(CallRecord& call) {
  call.prepared = false;
  std::erase(open_, &call);
  history_.Add(Did::kUnprepared, call.number);
}

size_t Ledger::OpenOn(size_t channel) const {
  return static_cast<size_t>(
      std::count_if(open_.begin(), open_.end(), [channel](const CallRecord* call) {
        return call->channel == channel && !call->closed && call->turns > 1;
      }));
}

std::string Ledger::Describe(const CallRecord& call) const {
  return absl::StrCat("call ", call.number, " (", EnumNameConduct(call.conduct), ", ran ", call.ran,
                      " times", call.in_coroutine ? ", in a coroutine" : "",
                      call.cancelled ? ", cancelled" : "",
                      call.closed ? ", its channel was closed" : "", "): ");
}

void Ledger::Ended(CallRecord& call, const absl::StatusOr<Msg<Report>>& reply,
                   const Metadata& metadata) {
  const absl::Status& status = reply.status();
  Require(!call.ended, Describe(call) + "it ended twice");
  call.ended = true;
  call.code = status.code();
  call.outcome = OutcomeOf(status);
  std::erase(open_, &call);
  history_.Add(Did::kEnd, call.number, static_cast<uint64_t>(call.code),
               static_cast<uint64_t>(call.outcome));
  const auto served = metadata.Find("number");
  Require(!served || *served == std::to_string(call.number),
          Describe(call) + "it was given the metadata of another call's reply");
  if (reply.ok()) {
    CheckReply(call, *reply);
  } else {
    CheckFailure(call, status);
  }
}

void Ledger::CheckReply(const CallRecord& call, const Msg<Report>& reply) {
  const std::string who = Describe(call);
  Require(reply->number() == call.number,
          absl::StrCat(who, "it was given the reply to call ", reply->number()));
  const auto* data = reply->data();
  const size_t bytes = data == nullptr ? 0 : data->size();
  Require(bytes == call.report_bytes && reply.attachment().size() == call.report_attachment_bytes,
          who + "the reply has not the size that was asked for");
  if (bytes > 0) {
    Require(HoldsPattern(std::as_bytes(std::span(data->data(), bytes)), call.number),
            who + "the reply's bytes are not what the handler wrote");
  }
  Require(HoldsPattern(reply.attachment().bytes(), call.number),
          who + "the attachment's bytes are not what the handler wrote");
  Require(call.ran == 1, who + "it was answered OK and did not run exactly once");
  Require(call.returned && call.returned_code == absl::StatusCode::kOk,
          who + "it was answered OK before its handler said so");
}

void Ledger::CheckFailure(const CallRecord& call, const absl::Status& status) {
  const std::string who = absl::StrCat(Describe(call), status.ToString(), ": ");
  Require(!absl::StrContains(status.message(), "protocol violation") &&
              !absl::StrContains(status.message(), "cannot be read"),
          who + "the two sides do not understand each other");
  switch (call.code) {
    case absl::StatusCode::kDeadlineExceeded:
      Require(clock_.Now() >= call.deadline, who + "its deadline is still to come");
      break;
    case absl::StatusCode::kCancelled:
      Require(call.cancelled || call.closed, who + "nobody cancelled it");
      break;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
      break;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kInternal:
      Require(call.outcome == Outcome::kAnswered, who + "no handler can have said so");
      break;
    default:
      Require(false, who + "nobody says such a thing here");
  }
  switch (call.outcome) {
    case Outcome::kNotSent:
    case Outcome::kNotRun:
      Require(call.ran == 0, who + "it ran all the same");
      break;
    case Outcome::kAnswered:
      Require(call.ran == 1 && call.returned &&
                  (call.code == call.returned_code ||
                   call.code == absl::StatusCode::kResourceExhausted),
              absl::StrCat(who, "its handler said ", Name(call.returned_code)));
      break;
    case Outcome::kUnknown:
      Require(!plan_.gentle || call.disturbed || call.code == absl::StatusCode::kCancelled ||
                  call.code == absl::StatusCode::kDeadlineExceeded,
              who + "it was lost although nothing happened to its connection");
      break;
  }
}

void Ledger::AfterTurn(size_t loop) {
  for (CallRecord* call : open_) {
    if (call->loop != loop) continue;
    ++call->turns;
    if (!call->closed && !call->cancelled && clock_.Now() < call->deadline) continue;
    ++call->late_turns;
    Require(
        call->late_turns <= kLateTurns,
        absl::StrCat(Describe(*call), "it is not over ", call->late_turns,
                     " turns after its deadline, or after it was cancelled or its channel closed"));
  }
}

void Ledger::Close(size_t channel) {
  for (CallRecord* call : open_) {
    if (call->channel == channel) call->closed = true;
  }
}

void Ledger::Disturb() {
  for (CallRecord* call : open_) call->disturbed = true;
}

void Ledger::Entered(const Errand& errand, const Buffer& attachment, const Context& context,
                     size_t server) {
  history_.Add(Did::kRun, errand.number(), server);
  if (errand.number() >= calls_.size()) {
    return Require(false, "a handler runs for a call that nobody made");
  }
  CallRecord& call = calls_[static_cast<size_t>(errand.number())];
  ++call.ran;
  const std::string who = Describe(call);
  Require(call.ran == 1, who + "it runs twice");
  Require(!call.ended || (call.outcome != Outcome::kNotSent && call.outcome != Outcome::kNotRun),
          who + "it was reported as not sent or not run, and runs now");
  const auto* data = errand.data();
  const size_t bytes = data == nullptr ? 0 : data->size();
  Require(bytes == call.data_bytes && attachment.size() == call.attachment_bytes,
          who + "the request has not the size that was sent");
  if (bytes > 0) {
    Require(HoldsPattern(std::as_bytes(std::span(data->data(), bytes)), call.number),
            who + "the request's bytes are not what was sent");
  }
  Require(HoldsPattern(attachment.bytes(), call.number),
          who + "the attachment's bytes are not what was sent");
  Require(context.metadata().Find("number") == std::to_string(call.number),
          who + "the request's metadata are those of another call");
  Require(++running_[context.peer().address] <= plan_.server.limits.max_calls_in_flight,
          who + "more handlers run for one connection than max_calls_in_flight");
}

void Ledger::Left(uint64_t number, const std::string& peer, const absl::Status& status) {
  --running_[peer];
  if (number >= calls_.size()) return;
  CallRecord& call = calls_[static_cast<size_t>(number)];
  call.returned = true;
  call.returned_code = status.code();
}

void Ledger::CheckEnd() {
  for (const CallRecord& call : calls_) {
    if (!call.prepared) continue;
    Require(call.ended, Describe(call) + "it never ended");
    Require(call.ran == 0 || call.returned, Describe(call) + "its handler never returned");
  }
}

void Ledger::CountInto(std::map<std::string, uint64_t>& totals) const {
  static constexpr const char* kOutcomes[] = {"not sent", "not run", "outcome unknown", "answered"};
  for (const CallRecord& call : calls_) {
    if (call.in_coroutine) ++totals["(of all these, in a coroutine)"];
    if (!call.prepared) {
      ++totals["no memory for the request"];
      continue;
    }
    ++totals[absl::StrCat(Name(call.code), ", ", kOutcomes[static_cast<int>(call.outcome)])];
  }
}

}  // namespace farcall::simulation
