// Connect and Listen: addresses, deadlines, cancellation, many connections on many loops.

#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farcall/tests/transports/conformance/cases.h"

namespace farcall::testing {
namespace {

using Catch::Matchers::Contains;

Endpoint Foreign() { return ParseEndpoint("no-such-scheme:///somewhere").value(); }

// An address where somebody listened and nobody does any more.
Endpoint DesertedAddress(Arena& arena) {
  Listener& listener = arena.Listen({&arena.server_loop()});
  listener.Stop();
  listener.Stop();
  return listener.address();
}

void NobodyListens(Arena& arena) {
  const Endpoint address = DesertedAddress(arena);
  Dial dial(arena, arena.client_loop(), address);
  const absl::Status status = dial.Wait();
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(status.message()), Contains(address.ToString()));
}

void ForeignAddresses(Arena& arena) {
  Dial dial(arena, arena.client_loop(), Foreign());
  CHECK(dial.Wait().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(dial.Wait().message()), Contains("no-such-scheme"));
  const absl::Status status =
      arena.transport().Listen(Foreign(), {&arena.server_loop()}, [](auto&&...) {}).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Contains("no-such-scheme"));
}

void TheAddressCanBeDialled(Arena& arena) {
  Listener& listener = arena.Listen({&arena.server_loop()});
  Dial dial(arena, arena.client_loop(), listener.address());
  Peer& client = arena.Adopt("client", arena.client_loop(), dial.Take());
  Peer& server = arena.Accepted();
  client.Start();
  const ConnectionInfo info = client.info();
  CHECK(info.transport == arena.subject().name);
  CHECK(info.peer_address == listener.address().ToString());
  CHECK(!server.info().peer_address.empty());
  arena.ExpectAlive({client, server});
}

void TheDeadlineHasPassed(Arena& arena) {
  Listener& listener = arena.Listen({&arena.server_loop()});
  Dial dial(arena, arena.client_loop(), listener.address(), -std::chrono::milliseconds(1));
  CHECK(dial.Wait().code() == absl::StatusCode::kDeadlineExceeded);
}

void NobodyAnswers(Arena& arena) {
  if (arena.subject().silent_endpoint == nullptr) return;
  EventLoop nobody_drives({.helper_thread = false});
  const auto [address, keep] = arena.subject().silent_endpoint(arena.transport(), nobody_drives);
  constexpr auto kTimeout = std::chrono::milliseconds(50);
  const TimePoint start = Clock::Steady().Now();
  Dial dial(arena, arena.client_loop(), address, kTimeout);
  Dial cancelled(arena, arena.client_loop(), address);
  cancelled.Cancel();
  CHECK(dial.Wait().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(Clock::Steady().Now() - start >= kTimeout);
  CHECK_THAT(std::string(dial.Wait().message()), Contains(address.ToString()));
  CHECK(!cancelled.ended());
}

void CancelledByDroppingTheHandle(Arena& arena) {
  Listener& listener = arena.Listen({&arena.server_loop()});
  const Endpoint deserted = DesertedAddress(arena);
  // At once, and some turns later; where somebody accepts, and where nobody does.
  for (const Endpoint& address : {listener.address(), deserted}) {
    for (int turns = 0; turns < 4; ++turns) {
      std::unique_ptr<Dial> dial;
      arena.On(arena.client_loop(), [&] {
        dial = std::make_unique<Dial>(arena, arena.client_loop(), address);
        if (turns == 0) dial->Cancel();
      });
      for (int i = 1; i < turns; ++i) arena.On(arena.client_loop(), [] {});
      dial->Cancel();
      const bool ended = dial->ended();
      arena.RunFor(kQuiet / 4);
      CHECK(dial->ended() == ended);
      CHECK(arena.RunUntil([&] { return !dial->holds_done(); }));
    }
  }
}

void TheHandleGoesFromInsideDone(Arena& arena) {
  const Endpoint address = arena.Listen({&arena.server_loop()}).address();
  std::unique_ptr<Transport::PendingConnect> handle;  // touched on the loop only
  std::atomic<bool> ended = false;
  arena.On(arena.client_loop(), [&] {
    handle = arena.transport().Connect(arena.client_loop(), address,
                                       arena.client_loop().clock().Now() + kPatience,
                                       [&](auto connection) {
                                         handle = nullptr;
                                         ended = connection.ok();
                                       });
  });
  CHECK(arena.RunUntil([&] { return ended.load(); }));
  // The connection went with it.
  Peer& server = arena.Accepted();
  CHECK(arena.RunUntil([&] { return server.closed().has_value(); }));
}

void AddressInUse(Arena& arena) {
  Listener& first = arena.Listen({&arena.server_loop()});
  const auto listen_again = [&] {
    return arena.transport().Listen(first.address(), {&arena.server_loop()}, [](auto&&...) {});
  };
  const absl::Status status = listen_again().status();
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(std::string(status.message()), Contains(first.address().ToString()));
  first.Stop();
  CHECK(listen_again().ok());
}

void NobodyIsAcceptedAfterStop(Arena& arena) {
  std::atomic<int> accepted = 0;
  const auto listener = arena.transport()
                            .Listen(arena.subject().listen_endpoint(), {&arena.server_loop()},
                                    [&](EventLoop&, std::unique_ptr<Connection>) { ++accepted; })
                            .value();
  std::vector<std::unique_ptr<Dial>> dials;
  arena.On(arena.client_loop(), [&] {
    for (int i = 0; i < 5; ++i) {
      dials.push_back(std::make_unique<Dial>(arena, arena.client_loop(), listener->address()));
    }
  });
  // On stepped loops they are under way now.
  listener->Stop();
  const int before = accepted;
  for (const auto& dial : dials) {
    const absl::Status status = dial->Wait();  // where a kernel accepts, they may connect in vain
    CHECK((status.ok() || status.code() == absl::StatusCode::kUnavailable));
  }
  arena.RunFor(kQuiet);
  CHECK(accepted == before);
}

void StopFromTheAcceptor(Arena& arena) {
  std::unique_ptr<Listener> listener;
  std::atomic<int> accepted = 0;
  listener = arena.transport()
                 .Listen(arena.subject().listen_endpoint(), {&arena.server_loop()},
                         [&](EventLoop& loop, std::unique_ptr<Connection> connection) {
                           listener->Stop();
                           arena.Adopt("server", loop, std::move(connection));
                           ++accepted;
                         })
                 .value();
  const Endpoint address = listener->address();
  Dial dial(arena, arena.client_loop(), address);
  CHECK(arena.RunUntil([&] { return accepted == 1; }));
  CHECK(dial.Wait().ok());
  CHECK(Dial(arena, arena.client_loop(), address).Wait().code() == absl::StatusCode::kUnavailable);
  CHECK(accepted == 1);
  arena.On(arena.server_loop(), [&] { listener = nullptr; });
}

void ConnectionsSpreadOverTheLoops(Arena& arena) {
  std::vector<EventLoop*> loops{&arena.NewLoop(), &arena.NewLoop(), &arena.NewLoop()};
  Listener& listener = arena.Listen(loops);
  std::map<EventLoop*, int> connections;
  for (int i = 0; i < 9; ++i) {
    Dial dial(arena, arena.client_loop(), listener.address());
    arena.Adopt("client", arena.client_loop(), dial.Take());
    ++connections[&arena.Accepted().loop()];
  }
  for (EventLoop* loop : loops) CHECK(connections[loop] == 3);
}

void CountersAddUp(Arena& arena) {
  const Pair pair = arena.Connect();
  pair.client.Send({.head = 32});
  pair.client.Send({.head = 100, .body = 1000, .attachment = 64});
  pair.client.Send({.head = 64, .body = 5, .attachment = 700 * KiB});
  pair.server.Send({.head = 33, .body = 6000});
  REQUIRE(
      arena.RunUntil([&] { return pair.client.outcomes() == 3 && pair.server.outcomes() == 1; }));
  REQUIRE(
      arena.RunUntil([&] { return pair.server.received() == 3 && pair.client.received() == 1; }));
  constexpr uint64_t kThere = 32 + 100 + 1000 + 64 + 64 + 5 + 700 * KiB;
  constexpr uint64_t kBack = 33 + 6000;
  const ConnectionCounters client = pair.client.info().counters;
  const ConnectionCounters server = pair.server.info().counters;
  CHECK(client.messages_sent == 3);
  CHECK(server.messages_received == 3);
  CHECK(server.messages_sent == 1);
  CHECK(client.messages_received == 1);
  CHECK(client.bytes_sent == kThere);
  CHECK(server.bytes_received == kThere);
  CHECK(server.bytes_sent == kBack);
  CHECK(client.bytes_received == kBack);
  for (const ConnectionCounters& end : {client, server}) {
    CHECK(end.send_calls > 0);
    CHECK(end.receive_calls > 0);
    CHECK(end.violations == 0);
  }
}

// Three loops a side, eight connections a loop, all at once.
void ManyConnectionsOnManyLoops(Arena& arena) {
  constexpr size_t kLoops = 3, kConnections = 24, kMessages = 100;
  std::vector<EventLoop*> servers, clients;
  for (size_t i = 0; i < kLoops; ++i) {
    servers.push_back(&arena.NewLoop());
    clients.push_back(&arena.NewLoop());
  }
  Listener& listener = arena.Listen(servers);
  std::vector<std::unique_ptr<Dial>> dials;
  for (size_t i = 0; i < kConnections; ++i) {
    dials.push_back(std::make_unique<Dial>(arena, *clients[i % kLoops], listener.address()));
  }
  std::vector<Peer*> ends;
  for (size_t i = 0; i < kConnections; ++i) {
    ends.push_back(&arena.Adopt("client", *clients[i % kLoops], dials[i]->Take()));
    ends.push_back(&arena.Accepted(/*start=*/false));
  }
  // Each end answers nothing and sends on its own, so that both directions are busy everywhere.
  for (Peer* end : ends) {
    end->hooks.done = [end](Ticket ticket, SendResult&) {
      if (ticket < kMessages) end->Send({.body = ticket % 10 == 0 ? 100 * KiB : ticket});
    };
    end->Start();
  }
  for (Peer* end : ends) end->Send({.body = 1});
  for (Peer* end : ends) {
    CHECK(arena.RunUntil([&] { return end->received() == kMessages; }));
  }
}

constexpr Case kCases[] = {
    {"nobody listens", NobodyListens},
    {"foreign addresses", ForeignAddresses},
    {"the listener's address can be dialled", TheAddressCanBeDialled},
    {"the deadline has passed", TheDeadlineHasPassed},
    {"nobody answers until the deadline", NobodyAnswers},
    {"cancelled by dropping the handle", CancelledByDroppingTheHandle},
    {"the handle goes from inside done", TheHandleGoesFromInsideDone},
    {"an address in use", AddressInUse},
    {"nobody is accepted after Stop", NobodyIsAcceptedAfterStop},
    {"Stop from the acceptor", StopFromTheAcceptor},
    {"connections spread over the loops", ConnectionsSpreadOverTheLoops},
    {"counters add up", CountersAddUp},
    {"many connections on many loops", ManyConnectionsOnManyLoops},
};

}  // namespace

std::span<const Case> ConnectingCases() { return kCases; }

}  // namespace farcall::testing
