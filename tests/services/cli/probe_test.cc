// `farcall doctor ADDRESS` against servers, and against what is none.

#include "farcall/services/cli/probe.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "farcall/rpc/server.h"
#include "farcall/services/echo/echo_impl.h"
#include "farcall/transports/dial.h"

namespace farcall::cli {
namespace {

using Catch::Matchers::Contains;

constexpr Duration kStep = std::chrono::seconds(30);

std::vector<std::string> NamesOf(const std::vector<ProbeStep>& steps) {
  std::vector<std::string> names;
  for (const ProbeStep& step : steps) names.push_back(step.name);
  return names;
}

TEST_CASE("every step passes against a server") {
  services::EchoImpl echo;
  Server server;
  REQUIRE(server.Add(services::Echo::Bind(echo)).ok());
  const std::string shm = "shm://doctor-" + std::to_string(::getpid());
  for (const std::string& listen : {std::string("tcp://127.0.0.1:0"), shm}) {
    const Endpoint address = Listen(server, listen).value();
    const std::vector<ProbeStep> steps = Probe(address, kStep);
    CHECK(NamesOf(steps) == std::vector<std::string>{"connect", "HELLO", "PING", "4 KiB", "1 MiB"});
    for (const ProbeStep& step : steps) {
      INFO(step.name << ": " << step.text);
      CHECK(step.ok);
      CHECK(step.microseconds > 0);
    }
  }
}

TEST_CASE("auto:// is tried by TCP, and the path is told that calls would go by") {
  services::EchoImpl echo;
  Server server;
  REQUIRE(server.Add(services::Echo::Bind(echo)).ok());
  const bool offers = GENERATE(true, false);
  Endpoint address = Listen(server, offers ? "auto://127.0.0.1:0" : "tcp://127.0.0.1:0").value();
  address.scheme = "auto";
  const std::vector<ProbeStep> steps = Probe(address, kStep);
  REQUIRE(NamesOf(steps) ==
          std::vector<std::string>{"connect", "HELLO", "PING", "4 KiB", "1 MiB", "path"});
  for (const ProbeStep& step : steps) CHECK(step.ok);
  CHECK_THAT(steps.front().text, Contains("tcp://"));
  if (offers) {
    CHECK(steps.back().text == "calls go by shm");
  } else {
    CHECK_THAT(steps.back().text, Contains("calls go by tcp; not by shm: ") &&
                                      Contains("; not by rdma: ") &&
                                      Contains("the peer offers no other paths"));
  }
}

TEST_CASE("nobody listens") {
  Server server;
  services::EchoImpl echo;
  REQUIRE(server.Add(services::Echo::Bind(echo)).ok());
  const Endpoint address = Listen(server, "tcp://127.0.0.1:0").value();
  REQUIRE(server.Shutdown(std::chrono::seconds(1)).ok());
  const std::vector<ProbeStep> steps = Probe(address, kStep);
  REQUIRE(NamesOf(steps) == std::vector<std::string>{"connect"});
  CHECK(!steps[0].ok);
  CHECK_THAT(steps[0].text, Contains("refused") && Contains(address.ToString()));
}

// Accepts, and says nothing.
TEST_CASE("a server that does not answer") {
  EventLoop loop;
  std::unique_ptr<Connection> accepted;
  const auto transport = MakeTcpTransport();
  const auto listener = transport
                            ->Listen(ParseEndpoint("tcp://127.0.0.1:0").value(), {&loop},
                                     [&](EventLoop&, std::unique_ptr<Connection> made) {
                                       accepted = std::move(made);
                                     })
                            .value();
  const std::vector<ProbeStep> steps = Probe(listener->address(), std::chrono::milliseconds(200));
  CHECK(NamesOf(steps) == std::vector<std::string>{"connect", "HELLO"});
  CHECK(!steps.back().ok);
  CHECK_THAT(steps.back().text, Contains("no answer within 200 ms"));
  listener->Stop();
  std::promise<void> gone;
  loop.Post([&] {  // where it belongs
    accepted.reset();
    gone.set_value();
  });
  gone.get_future().wait();
}

TEST_CASE("a server that takes no calls is told apart from one that is not there") {
  services::EchoImpl echo;
  ServerOptions options;
  options.limits.max_calls_in_flight = 0;
  Server server(options);
  REQUIRE(server.Add(services::Echo::Bind(echo)).ok());
  const Endpoint address = Listen(server, "tcp://127.0.0.1:0").value();
  const std::vector<ProbeStep> steps = Probe(address, kStep);
  CHECK(NamesOf(steps) == std::vector<std::string>{"connect", "HELLO"});
  CHECK_THAT(steps.back().text, Contains("takes no calls"));
}

}  // namespace
}  // namespace farcall::cli
