#include "farcall/transports/rdma/credits.h"

#include <catch2/catch.hpp>
#include <string>

namespace farcall::rdma {
namespace {

void Receive(Credits& credits, Kind kind, uint32_t reposts = 0) {
  REQUIRE(credits.Received(kind, reposts).ToString() == "OK");
}

std::string Refusal(Credits& credits, Kind kind, uint32_t reposts) {
  return std::string(credits.Received(kind, reposts).message());
}

TEST_CASE("the last credit is for a CREDIT alone") {
  Credits credits(8, 4);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(credits.CanSend(Kind::kMessage));
    credits.Send();
  }
  for (const Kind kind : {Kind::kMessage, Kind::kRts, Kind::kFin, Kind::kCancel}) {
    CHECK_FALSE(credits.CanSend(kind));
  }
  REQUIRE(credits.CanSend(Kind::kCredit));
  credits.Send();
  CHECK_FALSE(credits.CanSend(Kind::kCredit));
  CHECK(credits.available() == 0);

  Receive(credits, Kind::kCredit, 3);
  CHECK(credits.available() == 3);
  CHECK(credits.peer_reposts() == 3);
  CHECK(credits.CanSend(Kind::kMessage));
}

TEST_CASE("a CREDIT is due when half of the receives are untold and one of them had news") {
  for (const uint32_t depth : {4u, 5u, 8u, 64u}) {
    Credits credits(depth, 4);
    for (uint32_t i = 1; i * 2 < depth; ++i) {
      Receive(credits, Kind::kMessage);
      CHECK_FALSE(credits.CreditDue());
    }
    Receive(credits, Kind::kMessage);
    CHECK(credits.CreditDue());
    // Any SEND tells.
    CHECK(credits.Send() == (depth + 1) / 2);
    CHECK_FALSE(credits.CreditDue());
  }
}

TEST_CASE("CREDITs alone are no reason for a CREDIT") {
  Credits credits(4, 4);
  for (int i = 0; i < 3; ++i) Receive(credits, Kind::kCredit);
  CHECK_FALSE(credits.CreditDue());
  Receive(credits, Kind::kFin);
  CHECK(credits.CreditDue());
}

TEST_CASE("who sends without a credit is found out") {
  Credits credits(4, 4);
  for (int i = 0; i < 4; ++i) Receive(credits, Kind::kMessage);
  CHECK(Refusal(credits, Kind::kMessage, 0) ==
        "a SEND needs a credit, and the peer had used all 4 that it had");
  CHECK(credits.Send() == 4);
  Receive(credits, Kind::kMessage);
}

TEST_CASE("reposts that were not are found out") {
  Credits credits(8, 8);
  CHECK(Refusal(credits, Kind::kCredit, 1) ==
        "reposts count up and never beyond what was sent, 0: not from 0 to 1");
  for (int i = 0; i < 5; ++i) credits.Send();
  Receive(credits, Kind::kMessage, 2);
  for (const uint32_t reposts : {0u, 1u, 6u, 1u << 31, ~0u}) {
    CHECK(Refusal(credits, Kind::kMessage, reposts) ==
          "reposts count up and never beyond what was sent, 5: not from 2 to " +
              std::to_string(reposts));
  }
  // What was refused changed nothing.
  CHECK(credits.untold() == 1);
  Receive(credits, Kind::kMessage, 5);
  CHECK(credits.available() == 8);
}

TEST_CASE("counters pass 2^32") {
  const uint32_t from = ~uint32_t{0} - 2;
  Credits credits(4, 4, {.count_from = from});
  for (uint32_t i = 0; i < 8; ++i) {
    REQUIRE(credits.CanSend(Kind::kMessage));
    CHECK(credits.Send() == from + i);
    CHECK(Refusal(credits, Kind::kMessage, from + i + 2) != "");
    Receive(credits, Kind::kMessage, from + i + 1);
    CHECK(credits.available() == 4);
    CHECK(credits.untold() == 1);
  }
  CHECK(credits.peer_reposts() == 5);
}

}  // namespace
}  // namespace farcall::rdma
