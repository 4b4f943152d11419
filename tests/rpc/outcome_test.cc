// What a failed call's status says about whether it ran.

#include "farcall/rpc/outcome.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/cord.h"

namespace farcall {
namespace {

TEST_CASE("a status without an outcome is an answer") {
  CHECK(OutcomeOf(absl::OkStatus()) == Outcome::kAnswered);
  CHECK(OutcomeOf(absl::NotFoundError("x")) == Outcome::kAnswered);
  const absl::Status same = WithOutcome(absl::NotFoundError("x"), Outcome::kAnswered);
  CHECK(same == absl::NotFoundError("x"));
  CHECK_FALSE(NeverRan(same));
}

TEST_CASE("an outcome survives being passed on, and is shown once") {
  for (const Outcome outcome : {Outcome::kNotSent, Outcome::kNotRun, Outcome::kUnknown}) {
    absl::Status status = absl::UnavailableError("gone");
    status.SetPayload("other", absl::Cord("kept"));
    const absl::Status told = WithOutcome(status, outcome);
    const absl::Status copy = told;  // NOLINT(performance-unnecessary-copy-initialization)
    CHECK(OutcomeOf(copy) == outcome);
    CHECK(copy.code() == status.code());
    CHECK(copy.GetPayload("other") == absl::Cord("kept"));
    CHECK(copy.message() == status.message());
    CHECK(NeverRan(copy) == (outcome != Outcome::kUnknown));
  }
}

TEST_CASE("the latest word on the outcome counts") {
  const absl::Status told =
      WithOutcome(WithOutcome(absl::UnavailableError("x"), Outcome::kNotSent), Outcome::kUnknown);
  CHECK(OutcomeOf(told) == Outcome::kUnknown);
  CHECK(WithOutcome(told, Outcome::kAnswered) == absl::UnavailableError("x"));
}

TEST_CASE("an outcome as people read it") {
  const absl::Status gone = absl::UnavailableError("gone");
  CHECK(WithOutcome(gone, Outcome::kNotSent).ToString() ==
        "UNAVAILABLE: gone [farcall/outcome='not sent']");
  CHECK(WithOutcome(gone, Outcome::kNotRun).ToString() ==
        "UNAVAILABLE: gone [farcall/outcome='not run']");
  CHECK(WithOutcome(gone, Outcome::kUnknown).ToString() ==
        "UNAVAILABLE: gone [farcall/outcome='unknown']");
}

TEST_CASE("an outcome that is not understood is unknown, never not sent") {
  absl::Status status = absl::UnavailableError("x");
  for (const char* word : {"", "not sent ", "Not sent", "not", "answered"}) {
    status.SetPayload(kOutcomePayload, absl::Cord(word));
    CHECK(OutcomeOf(status) == Outcome::kUnknown);
    CHECK_FALSE(NeverRan(status));
  }
}

}  // namespace
}  // namespace farcall
