#include "farcall/transports/auto/selector.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "farcall/transports/auto/offer.h"
#include "farcall/transports/loopback/loopback.h"

namespace farcall::paths {
namespace {

using Catch::Matchers::Contains;

// Stands for both; it is not asked for anything.
const std::shared_ptr<Transport>& Any() {
  static const auto any = MakeLoopbackTransport();
  return any;
}

PathOffer Offered(const std::string& name, const std::string& address) {
  return {name, EncodeOffer({.endpoint = ParseEndpoint(address).value(),
                             .token = std::string(kTokenBytes, 't')})};
}

std::string Why(const PathCandidate& candidate) {
  CHECK(!candidate.unusable.ok());
  CHECK(candidate.transport == nullptr);
  CHECK(candidate.token.empty());
  return std::string(candidate.unusable.message());
}

TEST_CASE("what is offered is tried in this side's order, by its name") {
  Selector selector({{"shm", Any()}, {"rdma", Any()}});
  const auto both =
      selector.Select({Offered("rdma", "rdma://10.0.0.1:7001"), Offered("shm", "shm://auto-1")});
  REQUIRE(both.size() == 2);
  CHECK(both[0].name == "shm");
  CHECK(both[0].unusable.ok());
  CHECK(both[0].endpoint.ToString() == "shm://auto-1");
  CHECK(both[0].token == std::string(kTokenBytes, 't'));
  CHECK(both[0].transport == Any());
  CHECK(both[1].name == "rdma");
  CHECK(both[1].endpoint.ToString() == "rdma://10.0.0.1:7001");
}

TEST_CASE("for each path that cannot be tried there is a reason") {
  Selector selector({{"shm", Any()}, {"rdma", nullptr}});
  auto none = selector.Select({});
  REQUIRE(none.size() == 2);
  CHECK_THAT(Why(none[0]), Contains("the peer offers none"));
  CHECK_THAT(Why(none[1]), Contains("left out by this side"));

  const auto reason = selector.Select({{"shm", EncodeOffer({.reason = "no room\nleft"})}});
  CHECK_THAT(Why(reason[0]), Contains("the peer offers none: no room\\x0aleft"));
  const auto senseless = selector.Select({{"shm", "\x07garbage"}});
  CHECK_THAT(Why(senseless[0]), Contains("makes no sense"));
  // A server must not send its callers' shm client to somewhere else.
  const auto other = selector.Select({Offered("shm", "tcp://10.0.0.1:22")});
  CHECK_THAT(Why(other[0]), Contains("another kind"));
  const auto stranger = selector.Select({Offered("pigeon", "pigeon://x")});
  CHECK_THAT(Why(stranger[0]), Contains("the peer offers none"));
}

}  // namespace
}  // namespace farcall::paths
