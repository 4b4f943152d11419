// Many clients of one server at once, each connection with an adapter's means: a queue pair, memory
// of its own, a place in a completion queue.

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "farcall/tests/transports/rdma/engine_testing.h"

namespace farcall::testing {
namespace {

TEST_CASE("200 clients come at once, and each is served") {
  constexpr size_t kClients = 200;
  ShmOptions options;
  options.rdma.receive_depth = 8;  // less memory, of which a guest has little
  const TransportUnderTest subject = ShmSubject(options);
  Arena arena(subject, Layout::kThreads);
  const Endpoint address = arena.Listen({&arena.server_loop(), &arena.NewLoop()}).address();
  std::vector<std::unique_ptr<Dial>> dials;
  arena.On(arena.client_loop(), [&] {
    for (size_t i = 0; i < kClients; ++i) {
      dials.push_back(std::make_unique<Dial>(arena, arena.client_loop(), address));
    }
  });
  std::vector<Peer*> clients, servers;
  for (const auto& dial : dials) {
    clients.push_back(&arena.Adopt("client", arena.client_loop(), dial->Take()));
    clients.back()->Start();
    servers.push_back(&arena.Accepted());
  }
  for (Peer* client : clients) {
    client->Send({.body = 100});
    client->Send({.body = 20'000});
  }
  for (Peer* server : servers) {
    CHECK(arena.RunUntil([&] { return server->received() == 2; }));
    server->Send({.body = 20'000});
  }
  for (Peer* client : clients) {
    CHECK(arena.RunUntil([&] { return client->received() == 1; }));
  }
  arena.Finish();
}

}  // namespace
}  // namespace farcall::testing
