#include "farcall/transports/rdma/outgoing_transfers.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "farcall/rpc/buffer_pool.h"

namespace farcall::rdma {
namespace {

using outgoing::Event;
using outgoing::State;

constexpr TimePoint At(int seconds) { return TimePoint(std::chrono::seconds(seconds)); }

std::string Word(const OutgoingTransfers::Action& action) {
  const auto& result = action.result;
  switch (action.what) {
    case outgoing::kFinish:
      return "finish " + std::string(absl::StatusCodeToString(result.status.code())) +
             (result.sent ? " sent" : " unsent");
    case outgoing::kSendCancel:
      return "cancel";
    case outgoing::kRevoke:
      return "revoke";
    case outgoing::kRelease:
      return "release";
  }
  return "?";
}

// A table of transfers and an engine that writes down what it is told.
class Sender {
 public:
  explicit Sender(OutgoingTransfers::Limits limits = {}) : table_(limits) {}

  uint32_t Begin(size_t bytes = 1000) {
    Message message;
    message.body = *pool_.Allocate(bytes);
    return table_.Begin(++last_ticket_, std::move(message), {});
  }
  uint32_t Offer(size_t bytes = 1000) {
    const uint32_t transfer = Begin(bytes);
    table_.Posted(transfer);
    return transfer;
  }

  std::string Did() {
    OutgoingTransfers::Actions actions;
    table_.TakeActions(actions);
    std::string words;
    for (OutgoingTransfers::Action& action : actions) {
      if (!words.empty()) words += ", ";
      words += Word(action);
      const bool has_message = action.message.body || action.result.message.body;
      CHECK(has_message == (action.what == outgoing::kRelease ||
                            (action.what == outgoing::kFinish && !action.result.sent)));
    }
    return words;
  }

  // Brings a new transfer, number `ticket`, into `state`.
  uint32_t Reach(State state) {
    const uint32_t id = state == State::kBuilt ? Begin() : Offer();
    if (state == State::kZombie) table_.Withdraw(last_ticket_, At(0));
    if (state == State::kRevoking) REQUIRE(table_.Fin(id).ok());
    if (state == State::kLost) table_.Error(absl::UnavailableError("gone"));
    Did();
    return id;
  }

  Ticket last_ticket() const { return last_ticket_; }
  size_t leased() const { return pool_.stats().leased_bytes; }
  OutgoingTransfers& table() { return table_; }

 private:
  BufferPool pool_;
  OutgoingTransfers table_;
  Ticket last_ticket_ = 0;
};

TEST_CASE("an offered payload lives until FIN and until nobody can read it") {
  Sender sender;
  const uint32_t id = sender.Begin();
  CHECK(id == 1);
  CHECK(sender.table().message(id).body.size() == 1000);
  sender.table().Posted(id);
  CHECK(sender.Did() == "");
  CHECK(sender.table().Fin(id).ok());
  CHECK(sender.Did() == "finish OK sent, revoke");
  CHECK(sender.leased() > 0);
  sender.table().Revoked(id);
  CHECK(sender.Did() == "release");
  CHECK(sender.leased() == 0);
  CHECK(sender.table().size() == 0);
}

TEST_CASE("each event in each state of a sender's transfer") {
  struct Case {
    State state;
    std::vector<std::string> by_event;  // Fin, Withdraw, Revoked, Error; "-": cannot happen
  };
  const std::vector<Case> cases = {
      {State::kBuilt, {"violation", "finish CANCELLED unsent", "-", "finish UNAVAILABLE unsent"}},
      {State::kOffered,
       {"finish OK sent, revoke", "finish CANCELLED sent, cancel", "-", "finish UNAVAILABLE sent"}},
      {State::kZombie, {"revoke", "", "-", ""}},
      {State::kRevoking, {"violation", "", "release", ""}},
      {State::kLost, {"", "", "", ""}},
  };
  for (const auto& [state, by_event] : cases) {
    for (size_t event = 0; event < by_event.size(); ++event) {
      if (by_event[event] == "-") continue;
      INFO("state " << static_cast<int>(state) << ", event " << event);
      Sender sender;
      const uint32_t id = sender.Reach(state);
      bool violation = false;
      if (event == 0) violation = !sender.table().Fin(id).ok();
      if (event == 1) sender.table().Withdraw(sender.last_ticket(), At(1));
      if (event == 2) sender.table().Revoked(id);
      if (event == 3) sender.table().Error(absl::UnavailableError("gone"));
      CHECK(violation == (by_event[event] == "violation"));
      CHECK(sender.Did() == (violation ? "" : by_event[event]));
      // However it came here, the end of the queue pair is the end of it all.
      if (state != State::kLost && event != 3) sender.table().Error(absl::UnavailableError("gone"));
      sender.table().Destroyed();
      sender.Did();
      CHECK(sender.table().size() == 0);
      CHECK(sender.table().open() == 0);
      CHECK(sender.table().zombie_bytes() == 0);
      CHECK(sender.leased() == 0);
    }
  }
}

TEST_CASE("a FIN for what is not offered is a violation") {
  Sender sender;
  CHECK(sender.table().Fin(1).message() == "a FIN is for a transfer that is offered, not for 1");
  const uint32_t id = sender.Offer();
  CHECK_FALSE(sender.table().Fin(id + 1).ok());
  CHECK(sender.table().Fin(id).ok());
  CHECK_FALSE(sender.table().Fin(id).ok());  // twice
  sender.table().Revoked(id);
  CHECK_FALSE(sender.table().Fin(id).ok());
  CHECK(sender.Did() == "finish OK sent, revoke, release");
}

TEST_CASE("no more are open than the peer takes; a FIN makes room, a withdrawal does not") {
  Sender sender({.max_open = 2});
  const uint32_t first = sender.Offer();
  CHECK(sender.table().CanBegin());
  sender.Offer();
  CHECK_FALSE(sender.table().CanBegin());
  CHECK(sender.table().Withdraw(1, At(0)));
  CHECK_FALSE(sender.table().Withdraw(1, At(0)));
  CHECK_FALSE(sender.table().CanBegin());
  CHECK(sender.table().Fin(first).ok());
  CHECK(sender.table().CanBegin());
}

TEST_CASE("zombies are capped by bytes and by age") {
  Sender sender({.max_zombie_bytes = 100'000, .max_zombie_age = std::chrono::seconds(10)});
  for (int i = 0; i < 3; ++i) sender.Offer(40'000);  // held in slots of 64 KiB
  CHECK(sender.table().Withdraw(2, At(100)));
  CHECK(sender.table().CheckZombies(At(110)).ok());
  CHECK(sender.table().CheckZombies(At(111)).message() ==
        "the peer has not said that it is done with a payload (transfer 2) that was given up 11 s "
        "ago");
  CHECK(sender.table().Withdraw(1, At(105)));
  CHECK(sender.table().zombie_bytes() == 131'072);
  CHECK(sender.table().CheckZombies(At(105)).message() ==
        "the peer has not said that it is done with 2 payloads of 131072 bytes that were given up; "
        "at most 100000 bytes are kept for that");
  CHECK(sender.table().Fin(2).ok());
  CHECK(sender.table().CheckZombies(At(115)).ok());
  CHECK(sender.table().CheckZombies(At(116)).code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(sender.table().Fin(1).ok());
  CHECK(sender.table().zombie_bytes() == 0);
  CHECK(sender.table().CheckZombies(At(1000)).ok());
}

TEST_CASE("the end of the queue pair finishes all, in order, and keeps memory until it is gone") {
  Sender sender;
  sender.Offer();
  sender.Offer();
  sender.Begin();
  sender.table().Withdraw(1, At(0));
  sender.Did();
  sender.table().Error(absl::UnavailableError("gone"));
  CHECK(sender.Did() == "finish UNAVAILABLE sent, finish UNAVAILABLE unsent");
  CHECK(sender.leased() > 0);
  sender.table().Destroyed();
  CHECK(sender.Did() == "release, release");
  CHECK(sender.leased() == 0);
}

}  // namespace
}  // namespace farcall::rdma
