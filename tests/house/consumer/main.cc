// A server and a client in one process, on the installed library: one call over TCP.

#include <iostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "farcall/rpc/server.h"
#include "farcall/transports/dial.h"
#include "greeting.rpc.h"

namespace {

struct GreeterService {
  absl::Status Greet(farcall::Context& /*context*/, const consumer::GreetRequest& request,
                     farcall::Reply<consumer::GreetReply>& reply) {
    const std::string text = "hello, " + request.name()->str();
    reply.Finish(consumer::CreateGreetReply(reply, reply.CreateString(text)));
    return absl::OkStatus();
  }
};

int Fail(const char* what, const absl::Status& status) {
  std::cerr << what << ": " << status << "\n";
  return 1;
}

}  // namespace

int main() {
  GreeterService service;
  farcall::Server server;
  if (auto added = server.Add(consumer::Greeter::Bind(service)); !added.ok()) {
    return Fail("add", added);
  }
  auto address = farcall::Listen(server, "tcp://127.0.0.1:0");
  if (!address.ok()) return Fail("listen", address.status());

  auto channel = farcall::Dial(address->ToString());
  if (!channel.ok()) return Fail("dial", channel.status());
  consumer::Greeter::Client greeter(*channel);
  auto request = greeter.NewGreet();
  request.Finish(consumer::CreateGreetRequest(request, request.CreateString("ann")));
  auto reply = greeter.Greet(std::move(request));
  if (!reply.ok()) return Fail("greet", reply.status());
  std::cout << (*reply)->text()->str() << "\n";
  return 0;
}
