// The end of a connection: Close, destruction, a peer that goes away. Peer checks in every test
// that pending dones come before OnClosed and that nothing comes after it.

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "farcall/tests/transports/conformance/cases.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;

void ExpectClosed(Arena& arena, Peer& peer, const absl::Status& status) {
  REQUIRE(arena.RunUntil([&] { return peer.closed().has_value(); }));
  CHECK(*peer.closed() == status);
}

// The peer went away: UNAVAILABLE, with its name.
void ExpectPeerGone(Arena& arena, Peer& peer) {
  REQUIRE(arena.RunUntil([&] { return peer.closed().has_value(); }));
  CHECK(peer.closed()->code() == absl::StatusCode::kUnavailable);
  const std::string name = peer.info().peer_address;
  CHECK(!name.empty());
  CHECK_THAT(std::string(peer.closed()->message()), Contains(name));
}

const absl::Status kDone = absl::CancelledError("we are done");

void CloseEndsBothEnds(Arena& arena) {
  const Pair pair = arena.Connect();
  pair.client.Close(kDone);
  ExpectClosed(arena, pair.client, kDone);
  ExpectPeerGone(arena, pair.server);
}

void TheFirstCloseCounts(Arena& arena) {
  const Pair pair = arena.Connect();
  pair.client.Do([&] {
    pair.client.Close(kDone);
    pair.client.Close(absl::InternalError("twice"));
  });
  pair.client.Close(absl::InternalError("once more"));
  ExpectClosed(arena, pair.client, kDone);
  pair.client.Close(absl::InternalError("and again"));
  ExpectPeerGone(arena, pair.server);
  pair.server.Close(kDone);
}

void CloseWithOk(Arena& arena) {
  const Pair pair = arena.Connect();
  Sent sent;
  pair.client.Do([&] {
    sent = pair.client.Send({.body = kHuge});
    pair.client.Close(absl::OkStatus());
  });
  ExpectClosed(arena, pair.client, absl::OkStatus());
  CHECK(!pair.client.outcome(sent)->status.ok());
  ExpectPeerGone(arena, pair.server);
}

void WhatIsDoneArrivesBeforeTheEnd(Arena& arena) {
  const Pair pair = arena.Connect();
  for (size_t i = 0; i < 50; ++i) pair.client.Send({.body = i * 1000});
  pair.client.Send({.body = 1 * MiB});
  REQUIRE(arena.RunUntil([&] { return pair.client.outcomes() == 51; }));
  pair.client.Close(kDone);
  ExpectPeerGone(arena, pair.server);
  CHECK(pair.server.received() == 51);
}

void SendAndCloseInOneTurn(Arena& arena) {
  const Pair pair = arena.Connect();
  std::vector<Sent> sends;
  pair.client.Do([&] {
    for (size_t i = 0; i < 20; ++i) sends.push_back(pair.client.Send({.body = 100}));
    pair.client.Close(kDone);
  });
  ExpectClosed(arena, pair.client, kDone);
  ExpectPeerGone(arena, pair.server);
  for (Sent sent : sends) {
    if (pair.client.outcome(sent)->status.ok()) CHECK(pair.server.Received(sent.number));
  }
}

void CloseWithEverythingPending(Arena& arena) {
  const Pair pair = arena.Connect();
  for (Peer* peer : {&pair.client, &pair.server}) {
    peer->Send({.body = kHuge});
    peer->Send({.attachment = kHuge});
    peer->Send({.body = 100});
  }
  REQUIRE(arena.RunUntil([&] { return pair.server.admitted() >= 2; }));
  pair.client.Do([&] {
    pair.client.Send({.body = 64 * KiB});
    pair.client.Send({.body = 2 * MiB});
    pair.client.Close(kDone);
  });
  ExpectClosed(arena, pair.client, kDone);
  ExpectPeerGone(arena, pair.server);
}

// Runs `provoke`, which leads to a callback of `closer` that calls Close.
void ExpectCloseFrom(Arena& arena, Pair pair, Peer& closer, const std::function<void()>& provoke) {
  pair.client.Start();
  pair.server.Start();
  provoke();
  ExpectClosed(arena, closer, kDone);
  ExpectPeerGone(arena, &closer == &pair.client ? pair.server : pair.client);
}

void CloseFromAdmit(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.admit = [&](Ticket ticket, MessageSizes) {
    if (ticket == 2) pair.server.Close(kDone);
    return Admission{};
  };
  ExpectCloseFrom(arena, pair, pair.server, [&] {
    pair.client.Do([&] {
      for (size_t body : {1 * MiB, size_t{10}, size_t{10}}) pair.client.Send({.body = body});
    });
  });
}

void CloseFromOnMessage(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.message = [&](Ticket ticket, Message&) {
    pair.server.Send({.body = 10});
    if (ticket == 3) pair.server.Close(kDone);
  };
  ExpectCloseFrom(arena, pair, pair.server, [&] {
    pair.client.Do([&] {
      for (size_t body : {1 * MiB, size_t{10}, size_t{20}, size_t{30}}) {
        pair.client.Send({.body = body});
      }
    });
  });
}

void CloseFromOnMessageOfALargeOne(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.message = [&](Ticket, Message&) { pair.server.Close(kDone); };
  ExpectCloseFrom(arena, pair, pair.server, [&] {
    pair.client.Do([&] {
      pair.client.Send({.body = 1 * MiB});
      pair.client.Send({.body = 2 * MiB});
    });
  });
}

void CloseFromDone(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  pair.client.hooks.done = [&](Ticket ticket, SendResult&) {
    if (ticket == 1) pair.client.Send({.body = 20});
    if (ticket == 2) pair.client.Close(kDone);
  };
  ExpectCloseFrom(arena, pair, pair.client, [&] {
    pair.client.Do([&] {
      for (size_t body : {size_t{10}, size_t{10}, size_t{10}, 2 * MiB}) {
        pair.client.Send({.body = body});
      }
    });
  });
}

void CloseFromOnAbandoned(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  // A turn after the heads came: too soon for their payloads, whoever is how fast.
  pair.server.hooks.admit = [&](Ticket ticket, MessageSizes) {
    if (ticket == 2) pair.server.Send({.body = 10});
    return Admission{};
  };
  pair.server.hooks.done = [&](Ticket, SendResult& result) {
    if (!result.status.ok()) return;
    pair.server.Abandon(1, absl::CancelledError("one"));
    pair.server.Abandon(2, absl::CancelledError("two"));
  };
  pair.server.hooks.abandoned = [&](Ticket) { pair.server.Close(kDone); };
  ExpectCloseFrom(arena, pair, pair.server, [&] {
    pair.client.Do([&] {
      pair.client.Send({.body = kHuge});
      pair.client.Send({.body = kHuge});
    });
  });
}

void CloseFromOnClosed(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.closed = [&] { pair.server.Close(absl::InternalError("too late")); };
  pair.client.Start();
  pair.server.Start();
  pair.client.Close(kDone);
  ExpectPeerGone(arena, pair.server);
}

void SendAfterTheEnd(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  Sent in_callback;
  pair.server.hooks.closed = [&] { in_callback = pair.server.Send({.body = 10}); };
  pair.client.Start();
  pair.server.Start();
  Sent at_once;
  pair.client.Do([&] {
    pair.client.Close(kDone);
    at_once = pair.client.Send({.body = 10});
  });
  ExpectClosed(arena, pair.client, kDone);
  const Sent later = pair.client.Send({.body = 2 * MiB});
  ExpectPeerGone(arena, pair.server);
  for (auto [peer, sent] :
       {std::pair{&pair.client, at_once}, {&pair.client, later}, {&pair.server, in_callback}}) {
    REQUIRE(arena.RunUntil([&] { return peer->outcome(sent).has_value(); }));
    CHECK(peer->outcome(sent)->status.code() == absl::StatusCode::kUnavailable);
    CHECK(!peer->outcome(sent)->sent);
  }
  pair.client.Withdraw(later.ticket);
  pair.client.Abandon(1, absl::CancelledError("nothing is there"));
}

void ClosedBeforeStart(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  pair.client.Start();
  pair.client.Send({.body = 10});
  REQUIRE(arena.RunUntil([&] { return pair.client.outcomes() == 1; }));
  pair.client.Close(kDone);
  ExpectClosed(arena, pair.client, kDone);
  arena.RunFor(kQuiet);
  pair.server.Start();
  ExpectPeerGone(arena, pair.server);
  CHECK(pair.server.received() == 1);
}

void CloseBeforeStart(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.Start();
  pair.client.Send({.body = 10});
  pair.client.Close(kDone);
  ExpectPeerGone(arena, pair.server);
  pair.client.Start();
  ExpectClosed(arena, pair.client, kDone);
}

// ---- destruction ----

void DestroyedUnstarted(Arena& arena) {
  const Pair pair = arena.Connect(/*start=*/false);
  pair.client.Destroy();
  pair.server.Start();
  ExpectPeerGone(arena, pair.server);
}

void DestroyedWithEverythingPending(Arena& arena) {
  const Pair pair = arena.Connect();
  for (Peer* peer : {&pair.client, &pair.server}) {
    peer->Send({.body = kHuge});
    peer->Send({.attachment = kHuge});
    peer->Send({.body = 100});
  }
  REQUIRE(arena.RunUntil([&] { return pair.server.admitted() >= 2; }));
  pair.client.Do([&] {
    pair.client.Send({.body = 100});
    const Sent sent = pair.client.Send({.body = 2 * MiB});
    pair.client.Withdraw(sent.ticket);
    pair.client.Destroy();  // no callback follows: Peer would say so
  });
  ExpectPeerGone(arena, pair.server);
  CHECK(pair.server.outcomes() == pair.server.sends());
}

void DestroyedAfterClose(Arena& arena) {
  const Pair pair = arena.Connect();
  pair.client.Do([&] {
    pair.client.Send({.body = 100});
    pair.client.Close(kDone);
    pair.client.Destroy();
  });
  ExpectPeerGone(arena, pair.server);
}

void BothDestroyedMidTransfer(Arena& arena) {
  const Pair pair = arena.Connect();
  const Sent sent = pair.client.Send({.body = kHuge});
  REQUIRE(arena.RunUntil([&] { return pair.server.TicketOf(sent.number) != 0; }));
  pair.server.Destroy();
  pair.client.Destroy();
}

void DestroyedFromTheOtherEndsCallback(Arena& arena) {
  if (arena.layout() != Layout::kOneLoop) return;  // a connection is destroyed on its own loop
  const Pair pair = arena.Connect(/*start=*/false);
  pair.server.hooks.message = [&](Ticket ticket, Message&) {
    if (ticket == 2) pair.client.Destroy();
  };
  pair.client.Start();
  pair.server.Start();
  pair.client.Do([&] {
    for (size_t body : {size_t{10}, size_t{10}, 1 * MiB}) pair.client.Send({.body = body});
  });
  ExpectPeerGone(arena, pair.server);
}

void ConnectionsOutliveTransportAndListener(Arena& arena) {
  Listener& listener = arena.Listen({&arena.server_loop()});
  Dial dial(arena, arena.client_loop(), listener.address());
  Peer& client = arena.Adopt("client", arena.client_loop(), dial.Take());
  Peer& server = arena.Accepted();
  client.Start();
  listener.Stop();
  arena.DropTransport();
  arena.ExpectAlive({client, server});
}

constexpr Case kCases[] = {
    {"Close ends both ends", CloseEndsBothEnds},
    {"the first Close counts", TheFirstCloseCounts},
    {"Close with OK", CloseWithOk},
    {"what is done arrives before the end", WhatIsDoneArrivesBeforeTheEnd},
    {"Send and Close in one turn", SendAndCloseInOneTurn},
    {"Close with everything pending", CloseWithEverythingPending},
    {"Close from Admit", CloseFromAdmit},
    {"Close from OnMessage", CloseFromOnMessage},
    {"Close from OnMessage of a large one", CloseFromOnMessageOfALargeOne},
    {"Close from a done", CloseFromDone},
    {"Close from OnAbandoned", CloseFromOnAbandoned},
    {"Close from OnClosed", CloseFromOnClosed},
    {"Send after the end", SendAfterTheEnd},
    {"closed by the peer before Start", ClosedBeforeStart},
    {"Close before Start", CloseBeforeStart},
    {"destroyed unstarted", DestroyedUnstarted},
    {"destroyed with everything pending", DestroyedWithEverythingPending},
    {"destroyed right after Close", DestroyedAfterClose},
    {"both destroyed mid-transfer", BothDestroyedMidTransfer},
    {"destroyed from the other end's callback", DestroyedFromTheOtherEndsCallback},
    {"connections outlive transport and listener", ConnectionsOutliveTransportAndListener},
};

}  // namespace

std::span<const Case> ClosingCases() { return kCases; }

}  // namespace farcall::testing
