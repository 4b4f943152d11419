#include "farcall/tests/simulation/history.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "farcall/rpc/outcome.h"
#include "farcall/transports/faulty/dice.h"

namespace farcall::simulation {
namespace {

std::string CodeName(uint64_t code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

const char* OutcomeName(uint64_t outcome) {
  switch (static_cast<Outcome>(outcome)) {
    case Outcome::kNotSent:
      return "not sent";
    case Outcome::kNotRun:
      return "not run";
    case Outcome::kUnknown:
      return "outcome unknown";
    case Outcome::kAnswered:
      return "answered";
  }
  return "?";
}

}  // namespace

void History::Add(Did did, uint64_t a, uint64_t b, uint64_t c) {
  entries_.push_back({clock_.Now(), did, a, b, c});
  const auto when = static_cast<uint64_t>(clock_.Now().time_since_epoch().count());
  for (const uint64_t part : {when, static_cast<uint64_t>(did), a, b, c}) {
    hash_ = faulty::Dice(hash_ ^ part).Throw();
  }
}

std::string History::Last(size_t count) const {
  std::string text;
  for (size_t i = entries_.size() - std::min(count, entries_.size()); i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const bool turns = entry.did == Did::kTurn;
    if (turns && i > 0 && entries_[i - 1].did == Did::kTurn && !text.empty()) {
      text.pop_back();
      absl::StrAppend(&text, ", ", entry.a, "\n");
      continue;
    }
    const Duration since = entry.when - entries_.front().when;
    absl::StrAppend(&text, "  ", i, "  +", since.count() / 1000, " us  ", Words(entry), "\n");
  }
  return text;
}

std::string History::Words(const Entry& entry) {
  const uint64_t a = entry.a;
  switch (entry.did) {
    case Did::kTurn:
      return absl::StrCat("a turn of loop ", a);
    case Did::kAdvance:
      return absl::StrCat("the clock moves by ", a, " us");
    case Did::kStart:
      return absl::StrCat("call ", a, " starts on channel ", entry.b, ", timeout ",
                          static_cast<int64_t>(entry.c), " us");
    case Did::kSpawn:
      return absl::StrCat("a coroutine is to make ", entry.b, " calls on channel ", a);
    case Did::kUnprepared:
      return absl::StrCat("call ", a, " finds no memory for its request");
    case Did::kCancel:
      return absl::StrCat("call ", a, " is cancelled by its caller");
    case Did::kEnd:
      return absl::StrCat("call ", a, " ends: ", CodeName(entry.b), ", ", OutcomeName(entry.c));
    case Did::kRun:
      return absl::StrCat("the handler of call ", a, " runs on server ", entry.b);
    case Did::kReturn:
      return absl::StrCat("the handler of call ", a, " returns ", CodeName(entry.b));
    case Did::kLetGo:
      return absl::StrCat("the handler of call ", a, " may go on");
    case Did::kClose:
      return absl::StrCat("channel ", a, " is closed");
    case Did::kOpen:
      return absl::StrCat("channel ", a, " is opened");
    case Did::kDrain:
      return absl::StrCat("server ", a, " drains");
    case Did::kListen:
      return absl::StrCat("server ", a, entry.b != 0 ? " listens" : " finds its address in use");
    case Did::kKill:
      return absl::StrCat("server ", a, " is shut down at once");
    case Did::kRemove:
      return absl::StrCat("server ", a, " has drained and goes");
    case Did::kFinale:
      return absl::StrCat("the end begins, in manner ", a);
  }
  return "?";
}

}  // namespace farcall::simulation
