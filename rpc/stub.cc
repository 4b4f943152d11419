#include "farcall/rpc/stub.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/channel_core.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/log.h"

namespace farcall {
namespace {

// `late` with what is the likely cause when a handler calls the very server that it belongs to.
absl::Status HeldUpServer(const absl::Status& late) {
  const std::string hint =
      absl::StrCat(late.message(),
                   "; the blocking call was made by a handler on its server's loop, which served "
                   "nobody meanwhile: see ServiceOptions::blocking, or call asynchronously");
  Log(LogLevel::kWarning, absl::StrCat("server: ", hint));
  return Reworded(late, hint);
}

// A blocked thread's call; both of its faces live on that thread's stack.
class BlockingCall final : private BlockingTask, private ClientCall {
 public:
  BlockingCall(Channel& channel, const MethodInfo& method, MessageBuilder& builder,
               const CallOptions& options, Message& reply)
      : ClientCall(0, channel, method, builder, options), core_(channel.core()), reply_(reply) {
    begun_ = request().started;
  }

  absl::Status Wait() {
    if (!request().status.ok()) return request().status;
    absl::Status ran = core_.loop().RunBlocking(*this);
    if (!ran.ok()) return WithOutcome(ran, Outcome::kNotSent);
    if (absl::IsDeadlineExceeded(status_) && EventLoop::OnDedicatedThread()) {
      return HeldUpServer(status_);
    }
    return std::move(status_);
  }

 private:
  void Run() override { core_.Start(*this); }
  void OnDone(absl::Status&& status, Message&& reply) override {
    status_ = std::move(status);
    if (status_.ok()) reply_ = std::move(reply);
    Finish();
  }

  ChannelCore& core_;
  absl::Status status_;
  Message& reply_;
};

}  // namespace

absl::Status CallBlocking(Channel& channel, const MethodInfo& method, MessageBuilder& request,
                          const CallOptions& options, Message& reply) {
  return BlockingCall(channel, method, request, options, reply).Wait();
}

absl::Status StreamingUnimplemented(const MethodInfo& method) {
  return WithOutcome(
      absl::UnimplementedError(absl::StrCat(
          Absl(method.name), " is a streaming method; this version of Farcall makes unary calls")),
      Outcome::kNotSent);
}

absl::Status MalformedReply(const absl::Status& why, const MethodInfo& method,
                            const ChannelCore& from) {
  return absl::InternalError(absl::StrCat("the reply of ", from.endpoint().ToString(), " to ",
                                          Absl(method.name), " cannot be read: ", why.message(),
                                          ": are both sides of one schema?"));
}

}  // namespace farcall
