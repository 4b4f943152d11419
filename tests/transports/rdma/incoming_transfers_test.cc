#include "farcall/transports/rdma/incoming_transfers.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "farcall/rpc/buffer_pool.h"

namespace farcall::rdma {
namespace {

using incoming::State;

constexpr uint64_t kLarge = kSmallPayloadBytes + 1;
constexpr TimePoint At(int seconds) { return TimePoint(std::chrono::seconds(seconds)); }

std::string Word(const IncomingTransfers::Action& action) {
  const std::string code = absl::StatusCodeToString(action.status.code());
  switch (action.what) {
    case incoming::kStartReads:
      return "read";
    case incoming::kStopReads:
      return "stop";
    case incoming::kSendFin:
      return "fin " + code;
    case incoming::kDeliver:
      return "deliver";
    case incoming::kTell:
      return "tell " + code;
    case incoming::kRelease:
      return "release";
  }
  return "?";
}

class Incoming {
 public:
  explicit Incoming(IncomingTransfers::Limits limits = {}) : table_(limits) {}

  static Envelope Rts(uint32_t transfer, uint64_t body, uint64_t attachment = 0) {
    return {.kind = Kind::kRts,
            .transfer = transfer,
            .sizes = {body, attachment},
            .body = {body == 0 ? 0u : 0x1000u, 1},
            .attachment = {attachment == 0 ? 0u : 0x2000u, 2}};
  }

  // The next RTS, which the receiver accepts. Tickets are 10 more than the transfers' numbers.
  uint32_t Accept(uint64_t body, uint64_t attachment = 0, int at = 0) {
    const Envelope rts = Rts(++last_, body, attachment);
    REQUIRE(table_.Announce(rts).ToString() == "OK");
    table_.Accept(rts, 10 + last_, {}, At(at));
    return last_;
  }

  // Gives what is wanted next its memory.
  uint32_t GiveMemory() {
    const auto wanted = table_.WantsMemory();
    REQUIRE(wanted);
    if (wanted->sizes.body != 0) wanted->message->body = *pool_.Allocate(wanted->sizes.body);
    if (wanted->sizes.attachment != 0) {
      wanted->message->attachment = *pool_.Allocate(wanted->sizes.attachment);
    }
    table_.Memory(wanted->transfer);
    return wanted->transfer;
  }

  std::string Did() {
    table_.TakeActions(actions_);
    std::string words;
    for (const IncomingTransfers::Action& action : actions_) {
      if (!words.empty()) words += ", ";
      words += Word(action);
      if (action.what == incoming::kDeliver || action.what == incoming::kTell) {
        CHECK(action.ticket == 10 + action.transfer);
      }
      if (action.what == incoming::kSendFin) table_.FinPosted();
    }
    return words;
  }
  const IncomingTransfers::Actions& actions() const { return actions_; }
  void Forget() { actions_.clear(); }

  uint32_t Reach(State state) {
    const uint32_t id = Accept(kLarge);
    if (state != State::kWaiting) GiveMemory();
    if (state == State::kStopping) table_.Abandon(10 + id, absl::DeadlineExceededError("late"));
    if (state == State::kLost) table_.Error();
    Did();
    return id;
  }

  size_t leased() const { return pool_.stats().leased_bytes; }
  IncomingTransfers& table() { return table_; }

 private:
  BufferPool pool_;
  IncomingTransfers table_;
  IncomingTransfers::Actions actions_;
  uint32_t last_ = 0;
};

TEST_CASE("an accepted payload is read and delivered") {
  Incoming incoming;
  const uint32_t id = incoming.Accept(100, 200);
  CHECK(incoming.Did() == "");
  incoming.GiveMemory();
  REQUIRE(incoming.Did() == "read");
  const ReadSegments segments = incoming.actions()[0].segments;
  CHECK(segments[0].remote_address == 0x1000);
  CHECK(segments[0].rkey == 1);
  CHECK(segments[0].bytes == 100);
  CHECK(segments[1].remote_address == 0x2000);
  CHECK(segments[1].rkey == 2);
  CHECK(segments[1].bytes == 200);
  incoming.table().Arrived(id);
  REQUIRE(incoming.Did() == "fin OK, deliver");
  CHECK(incoming.actions()[1].message.body.data() == segments[0].local);
  CHECK(incoming.actions()[1].message.attachment.data() == segments[1].local);
  CHECK(incoming.table().size() == 0);
  CHECK(incoming.table().announced_bytes() == 0);
  CHECK(incoming.table().unanswered() == 0);
}

TEST_CASE("a payload that is refused costs no memory and no READ") {
  Incoming incoming;
  REQUIRE(incoming.table().Announce(Incoming::Rts(1, kLarge)).ok());
  incoming.table().Refuse(1, absl::ResourceExhaustedError("too large"));
  CHECK_FALSE(incoming.table().WantsMemory());
  CHECK(incoming.Did() == "fin RESOURCE_EXHAUSTED");
  CHECK(incoming.table().size() == 0);
}

TEST_CASE("each event in each state of a receiver's transfer") {
  struct Case {
    State state;
    // NoMemory, Abandon, Cancel, Arrived, Drained, Error; "-": cannot happen
    std::vector<std::string> by_event;
  };
  const std::vector<Case> cases = {
      {State::kWaiting,
       {"fin RESOURCE_EXHAUSTED, tell RESOURCE_EXHAUSTED, release",
        "fin ABORTED, tell ABORTED, release", "fin CANCELLED, tell CANCELLED, release", "-", "-",
        "release"}},
      {State::kReading,
       {"-", "stop, tell ABORTED", "stop, tell CANCELLED", "fin OK, deliver", "-", ""}},
      {State::kStopping, {"-", "", "", "-", "fin DEADLINE_EXCEEDED, release", ""}},
      {State::kLost, {"-", "", "", "", "", ""}},
  };
  for (const auto& [state, by_event] : cases) {
    for (size_t event = 0; event < by_event.size(); ++event) {
      if (by_event[event] == "-") continue;
      INFO("state " << static_cast<int>(state) << ", event " << event);
      Incoming incoming;
      IncomingTransfers& table = incoming.table();
      const uint32_t id = incoming.Reach(state);
      if (event == 0) {
        CHECK_FALSE(table.NoMemory(id, At(0)));
        table.ExpireWaiting(At(1000));
      }
      if (event == 1) table.Abandon(10 + id, absl::AbortedError("enough"));
      if (event == 2) CHECK(table.Cancel(id).ok());
      if (event == 3) table.Arrived(id);
      if (event == 4) table.Drained(id);
      if (event == 5 && state != State::kLost) table.Error();
      CHECK(incoming.Did() == by_event[event]);
      if (state != State::kLost && event != 5) table.Error();
      table.Destroyed();
      incoming.Did();
      incoming.Forget();
      CHECK(table.size() == 0);
      CHECK(table.announced_bytes() == 0);
      CHECK(incoming.leased() == 0);
    }
  }
}

TEST_CASE("hostile RTS and CANCELs name the rule") {
  Incoming incoming({.max_open = 3});
  IncomingTransfers& table = incoming.table();
  const auto announce = [&table](uint32_t transfer) {
    return std::string(table.Announce(Incoming::Rts(transfer, kLarge)).message());
  };
  CHECK(announce(0) == "the numbers of transfers count up: an RTS after 0 is not for 0");
  CHECK(announce(1u << 31) != "");
  incoming.Accept(kLarge);
  for (const uint32_t transfer : {0u, 1u, ~0u, (1u << 31) + 1}) {
    CHECK(announce(transfer) == "the numbers of transfers count up: an RTS after 1 is not for " +
                                    std::to_string(transfer));
  }
  CHECK(table.Cancel(2).message() == "a CANCEL is for a transfer that was announced, not for 2");
  CHECK_FALSE(table.Cancel(1u << 31).ok());
  incoming.Accept(kLarge);
  incoming.Accept(kLarge);
  CHECK(announce(4) == "at most 3 RTS are without a FIN, not one more");
  // That a FIN is to be sent is not enough: it must have been.
  CHECK(table.Cancel(1).ok());
  CHECK(announce(4) == "at most 3 RTS are without a FIN, not one more");
  CHECK(incoming.Did() == "fin CANCELLED, tell CANCELLED, release");
  CHECK(announce(4) == "");
  // It crossed the FIN.
  CHECK(table.Cancel(1).ok());
  CHECK(incoming.Did() == "");
}

TEST_CASE("numbers may be left out and pass 2^32, but never come twice") {
  Incoming incoming;
  IncomingTransfers& table = incoming.table();
  const auto accept = [&](uint32_t transfer) {
    const Envelope rts = Incoming::Rts(transfer, kLarge);
    const absl::Status status = table.Announce(rts);
    if (status.ok()) table.Accept(rts, 10 + transfer, {}, At(0));
    return status.ok();
  };
  CHECK(accept(5));
  CHECK_FALSE(accept(4));
  CHECK(accept((1u << 31) + 4));
  CHECK(accept(~0u));
  CHECK(accept(1));
  CHECK_FALSE(accept(5));  // still open
  REQUIRE(table.Cancel(5).ok());
  CHECK(accept(5));
}

TEST_CASE("what is announced is bounded; one larger may come alone") {
  Incoming incoming({.max_announced_bytes = 1'000'000});
  IncomingTransfers& table = incoming.table();
  const uint32_t alone = incoming.Accept(~uint64_t{0} - 0x2000, 1);
  CHECK(incoming.Did() == "");
  // Even a sum that overflows.
  incoming.Accept(0x3000);
  CHECK(incoming.Did() == "fin RESOURCE_EXHAUSTED, tell RESOURCE_EXHAUSTED, release");
  CHECK(table.announced_bytes() == ~uint64_t{0} - 0x1fff);
  REQUIRE(table.Cancel(alone).ok());
  incoming.Did();
  CHECK(table.announced_bytes() == 0);

  incoming.Accept(600'000);
  incoming.Accept(400'000);
  CHECK(incoming.Did() == "");
  incoming.Accept(1);
  REQUIRE(incoming.Did() == "fin RESOURCE_EXHAUSTED, tell RESOURCE_EXHAUSTED, release");
  CHECK(incoming.actions()[1].status.message() ==
        "no memory to receive a payload of 1 bytes: the peer has announced 1000000 others that are "
        "not finished, and max_announced_bytes is 1000000");
}

TEST_CASE("small payloads get memory first and never wait; large ones wait in order") {
  Incoming incoming({.max_memory_wait = std::chrono::seconds(2)});
  IncomingTransfers& table = incoming.table();
  const uint32_t first = incoming.Accept(kLarge, 0, 10);
  incoming.Accept(kLarge, 0, 11);
  const uint32_t small = incoming.Accept(kSmallPayloadBytes, 0, 11);
  CHECK(table.WantsMemory()->transfer == small);
  CHECK(table.NoMemory(small, At(11)));
  CHECK(incoming.Did() == "fin RESOURCE_EXHAUSTED, tell RESOURCE_EXHAUSTED, release");
  CHECK(table.WantsMemory()->transfer == first);
  table.ExpireWaiting(At(1000));  // nobody has asked in vain
  CHECK(incoming.Did() == "");
  CHECK_FALSE(table.starved());
  CHECK_FALSE(table.NoMemory(first, At(11)));
  CHECK(table.starved());
  CHECK_FALSE(table.NoMemory(first, At(12)));
  table.ExpireWaiting(At(13));
  CHECK(incoming.Did() == "");
  const uint32_t late = incoming.Accept(kLarge, 0, 13);
  table.ExpireWaiting(At(14));
  CHECK(incoming.Did() ==
        "fin RESOURCE_EXHAUSTED, tell RESOURCE_EXHAUSTED, release, "
        "fin RESOURCE_EXHAUSTED, tell RESOURCE_EXHAUSTED, release");
  CHECK(table.starved());
  CHECK(incoming.GiveMemory() == late);
  CHECK_FALSE(table.starved());
  CHECK_FALSE(table.WantsMemory());
  table.ExpireWaiting(At(1000));
  CHECK(incoming.Did() == "read");
}

TEST_CASE("how long memory was wanting begins anew when there was some, or nobody waits") {
  Incoming incoming({.max_memory_wait = std::chrono::seconds(2)});
  IncomingTransfers& table = incoming.table();
  const uint32_t first = incoming.Accept(kLarge, 0, 10);
  const uint32_t second = incoming.Accept(kLarge, 0, 10);
  CHECK_FALSE(table.NoMemory(first, At(11)));
  CHECK(incoming.GiveMemory() == first);
  CHECK(incoming.Did() == "read");
  table.ExpireWaiting(At(1000));
  CHECK(incoming.Did() == "");
  CHECK_FALSE(table.NoMemory(second, At(1001)));
  CHECK(table.Abandon(10 + second, absl::CancelledError("late")));
  CHECK_FALSE(table.starved());
  CHECK(incoming.Did() == "fin CANCELLED, tell CANCELLED, release");
}

}  // namespace
}  // namespace farcall::rdma
