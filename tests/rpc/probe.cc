#include "farcall/tests/rpc/probe.h"

#include <boost/asio/async_result.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"

namespace farcall::testing {

absl::Status ProbeImpl::Do(Context& context, const Ask& request, Reply<Answer>& reply) {
  ++ran;
  if (on_do) on_do();
  const std::string action = request.action() == nullptr ? "" : request.action()->str();
  if (action == "fail") {
    absl::Status status = absl::NotFoundError("no such thing: \xff\x01");
    status.SetPayload("test/why", absl::Cord(std::string("bin\0ary", 7)));
    context.AddReplyMetadata("on-error", "yes");
    return status;
  }
  if (action == "throw") throw std::runtime_error("thrown by the test");
  if (action == "throw_int") throw 7;
  if (action == "no_reply") return absl::OkStatus();
  std::string text = action;
  if (action == "metadata") {
    context.metadata().ForEach([&](std::string_view key, std::string_view value) {
      context.AddReplyMetadata(std::string(key), std::string(value) + "!");
    });
  }
  if (action == "deadline") {
    text = std::to_string(
        std::chrono::duration_cast<std::chrono::milliseconds>(context.remaining()).count());
  }
  if (action == "peer") text = context.peer().transport + "|" + context.peer().authentication;
  if (context.attachment()) reply.Attach(context.TakeAttachment());
  std::vector<uint8_t> data(action == "big" ? request.number() : 0, 7);
  if (request.data() != nullptr) data.assign(request.data()->begin(), request.data()->end());
  const auto data_at = reply.CreateVector(data);
  const auto text_at = reply.CreateString(text);
  reply.Finish(CreateAnswer(reply, text_at, request.number(), data_at));
  return absl::OkStatus();
}

asio::awaitable<void> ProbeImpl::NeverResumed(bool keep) {
  const std::shared_ptr<void> frame(nullptr, [this](void*) { ++destroyed; });
  co_await asio::async_initiate<const asio::use_awaitable_t<>&, void()>(
      [this, keep](auto handler) {
        auto held = std::make_shared<decltype(handler)>(std::move(handler));
        if (!keep) return;
        kept = std::move(held);
        keeps = true;
      },
      asio::use_awaitable);
}

asio::awaitable<absl::Status> ProbeImpl::Wait(Context& context, Msg<Ask> request,
                                              Reply<Answer>& reply) {
  ++ran;
  const std::string action = request->action() == nullptr ? "" : request->action()->str();
  if (action == "drop" || action == "keep") co_await NeverResumed(action == "keep");
  asio::steady_timer timer(co_await asio::this_coro::executor,
                           std::chrono::milliseconds(request->number()));
  try {
    co_await timer.async_wait(asio::use_awaitable);
  } catch (...) {
    ++cancelled;
    throw;
  }
  if (context.cancelled()) ++cancelled;
  reply.Finish(CreateAnswer(reply, reply.CreateString("waited"), request->number()));
  co_return absl::OkStatus();
}

absl::Status ProbeImpl::Object(Context& /*context*/, const AskT& request, AnswerT& reply) {
  ++ran;
  reply.text = request.action;
  reply.number = request.number + 1;
  return absl::OkStatus();
}

absl::Status BlockerImpl::Block(Context& context, const Ask& request, Reply<Answer>& reply) {
  ++ran;
  if (on_block) on_block();
  while (!let_go.load() && !context.cancelled()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  reply.Finish(CreateAnswer(reply, reply.CreateString("let go"), request.number()));
  return absl::OkStatus();
}

Stage::Stage(ServerOptions options)
    : transport(
          MakeLoopbackTransport({.network = MakeLoopbackNetwork(), .pool = {}, .limits = {}})),
      endpoint(*ParseEndpoint("loopback://probe")),
      server(std::make_unique<Server>(std::move(options))) {
  server->Add(Probe::Bind(probe)).IgnoreError();
  server->Add(Blocker::Bind(blocker, {.blocking = true})).IgnoreError();
  server->Listen(transport, endpoint).IgnoreError();
}

Channel Stage::Dial(ChannelOptions options) const {
  return Channel(transport, endpoint, std::move(options));
}

Builder<Ask> Asking(Probe::Client& client, const std::string& action, uint64_t number,
                    size_t data_bytes) {
  Builder<Ask> request = client.NewDo();
  const auto action_at = request.CreateString(action);
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data_at;
  if (data_bytes > 0) data_at = request.CreateVector(std::vector<uint8_t>(data_bytes, 3));
  request.Finish(CreateAsk(request, action_at, number, data_at));
  return request;
}

}  // namespace farcall::testing
