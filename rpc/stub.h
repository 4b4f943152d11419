// What generated clients are made of: one call, blocking or asynchronous, typed by a method
// descriptor M (M::Request, M::Response, M::info()).

#ifndef FARCALL_RPC_STUB_H_
#define FARCALL_RPC_STUB_H_

#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/async_call.h"
#include "farcall/rpc/builder.h"
#include "farcall/rpc/call.h"
#include "farcall/rpc/channel.h"
#include "farcall/rpc/method.h"
#include "farcall/rpc/msg.h"

namespace farcall {

// Makes the call and fills `reply` when it is OK, driving the channel's loop on this thread if
// nobody else does. Returns by the call's deadline, unless whoever drives that loop is blocked in a
// callback or an inline handler: nobody looks at the clock then. Two callbacks that each make a
// blocking call on the other's channel wait for ever. FAILED_PRECONDITION at once on a thread that
// drives that loop already.
absl::Status CallBlocking(Channel& channel, const MethodInfo& method, MessageBuilder& request,
                          const CallOptions& options, Message& reply);

// What a streaming method's stub says until streams exist.
absl::Status StreamingUnimplemented(const MethodInfo& method);

absl::Status MalformedReply(const absl::Status& why, const MethodInfo& method,
                            const ChannelCore& from);

// How a call ended: checks the reply before the caller reads it. INTERNAL when the server sent
// something malformed.
template <class Response>
absl::StatusOr<Msg<Response>> TypedReply(absl::Status&& status, Message&& reply,
                                         const MethodInfo& method, const ChannelCore& from) {
  if (!status.ok()) return std::move(status);
  const MessageLimits& limits = from.options().limits;
  if (absl::Status verified = VerifyBody<Response>(reply.body, limits); !verified.ok()) {
    return MalformedReply(verified, method, from);
  }
  return absl::StatusOr<Msg<Response>>(absl::in_place, std::move(reply));
}

// A message built from flatc's object API.
template <class T>
Builder<T> PackedBuilder(const Channel& channel, const typename T::NativeTableType& native) {
  Builder<T> builder(channel.pool(), 0);
  builder.Pack(native);
  return builder;
}

template <class M>
absl::StatusOr<Msg<typename M::Response>> Call(Channel& channel,
                                               Builder<typename M::Request>&& request,
                                               const CallOptions& options) {
  Message reply;
  absl::Status status = CallBlocking(channel, M::info(), request, options, reply);
  return TypedReply<typename M::Response>(std::move(status), std::move(reply), M::info(),
                                          channel.core());
}

template <class M>
absl::StatusOr<Msg<typename M::Response>> Call(Channel& channel,
                                               const typename M::Request::NativeTableType& request,
                                               const CallOptions& options) {
  return Call<M>(channel, PackedBuilder<typename M::Request>(channel, request), options);
}

// Starts the call; `token` is any Asio completion token for void(absl::StatusOr<Msg<Response>>).
// The handler runs on its associated executor, by default the channel's loop, and never inside
// this. It may be cancelled by its cancellation slot: the call then ends with CANCELLED, unless its
// answer came first. An asio::cancellation_signal is not thread-safe: emit it on the handler's
// executor, by default channel.loop().Post([&] { signal.emit(…); }).
template <class M, class Token>
auto AsyncCall(Channel& channel, Builder<typename M::Request>&& request, const CallOptions& options,
               Token&& token) {
  using Result = absl::StatusOr<Msg<typename M::Response>>;
  constexpr auto convert = [](absl::Status&& status, Message&& reply, const ChannelCore& from) {
    return TypedReply<typename M::Response>(std::move(status), std::move(reply), M::info(), from);
  };
  if constexpr (IsHandler<std::decay_t<Token>, Result>) {  // which puts nothing off
    StartAsyncCall(channel, std::forward<Token>(token), convert, channel, M::info(), request,
                   options);
  } else {
    return asio::async_initiate<Token, void(Result)>(
        // The channel by value: a call under way does not keep it open.
        [convert](auto handler, Channel to, PreparedCall call) {
          StartAsyncCall(to, std::move(handler), convert, std::move(call));
        },
        token, channel, PrepareCall(channel, M::info(), request, options));
  }
}

template <class M, class Token>
auto AsyncCall(Channel& channel, const typename M::Request::NativeTableType& request,
               const CallOptions& options, Token&& token) {
  return AsyncCall<M>(channel, PackedBuilder<typename M::Request>(channel, request), options,
                      std::forward<Token>(token));
}

}  // namespace farcall

#endif  // FARCALL_RPC_STUB_H_
