// A class that does not implement the service it is bound to. Never linked: bind_message_test.py
// compiles it and reads the errors.

#include "echo.rpc.h"

namespace {

using farcall::test::SayReply;
using farcall::test::SayRequest;

class WrongEcho {
 public:
  int Say(farcall::Context&, const SayRequest&, farcall::Reply<SayReply>&) { return 0; }
  absl::Status Plain(farcall::Context&, const SayRequest&, farcall::Reply<SayReply>&) {
    return absl::OkStatus();
  }
};

static_assert(!farcall::test::EchoService<WrongEcho>);

}  // namespace

farcall::Service BindWrongEcho() {
  static WrongEcho echo;
  return farcall::test::Echo::Bind(echo);
}
