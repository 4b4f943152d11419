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
}

TEST_CASE("an outcome survives being passed on, in a payload and in words") {
  for (const Outcome outcome : {Outcome::kNotSent, Outcome::kUnknown}) {
    absl::Status status = absl::UnavailableError("gone");
    status.SetPayload("other", absl::Cord("kept"));
    const absl::Status told = WithOutcome(status, outcome);
    const absl::Status copy = told;  // NOLINT(performance-unnecessary-copy-initialization)
    CHECK(OutcomeOf(copy) == outcome);
    CHECK(copy.code() == status.code());
    CHECK(copy.GetPayload("other") == absl::Cord("kept"));
    CHECK(std::string(copy.message()) ==
          (outcome == Outcome::kNotSent ? "gone (not sent)" : "gone (outcome unknown)"));
  }
}

TEST_CASE("the latest word on the outcome counts") {
  const absl::Status told =
      WithOutcome(WithOutcome(absl::UnavailableError("x"), Outcome::kNotSent), Outcome::kUnknown);
  CHECK(OutcomeOf(told) == Outcome::kUnknown);
}

TEST_CASE("an outcome that is not understood is unknown, never not sent") {
  absl::Status status = absl::UnavailableError("x");
  for (const char* word : {"", "not sent ", "Not sent", "answered"}) {
    status.SetPayload(kOutcomePayload, absl::Cord(word));
    CHECK(OutcomeOf(status) == Outcome::kUnknown);
  }
}

}  // namespace
}  // namespace farcall
