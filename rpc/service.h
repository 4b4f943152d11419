// What generated services are made of: a user's class bound method by method, in the form that each
// method has.
//
// For a method Say of request SayRequest and reply SayReply the class has one of
//
//   absl::Status Say(farcall::Context&, const SayRequest&, farcall::Reply<SayReply>&);
//   boost::asio::awaitable<absl::Status> Say(farcall::Context&, farcall::Msg<SayRequest>,
//                                            farcall::Reply<SayReply>&);
//   absl::Status Say(farcall::Context&, const SayRequestT&, SayReplyT&);
//
// The third speaks flatc's object API. The first and the third run inline on the connection's loop
// unless ServiceOptions::blocking puts them on the worker pool; the second is a coroutine on the
// loop. An exception ends its call with INTERNAL, and so does a coroutine that is destroyed before
// it finished.
//
// What runs on the loop must not block: every connection of that loop waits for it. The trap is a
// blocking call to the handler's own server, whose loop then waits for itself until the deadline;
// its status says so.

#ifndef FARCALL_RPC_SERVICE_H_
#define FARCALL_RPC_SERVICE_H_

#include <flatbuffers/flatbuffers.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <concepts>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "farcall/rpc/builder.h"
#include "farcall/rpc/context.h"
#include "farcall/rpc/method.h"
#include "farcall/rpc/method_table.h"
#include "farcall/rpc/msg.h"
#include "farcall/rpc/server_call.h"
#include "farcall/rpc/unpack_plan.h"

namespace farcall {

// The reply under construction, in the connection's memory. Finish it, or Pack flatc's object,
// before returning OK.
template <class T>
class Reply : public Builder<T> {
 public:
  using Builder<T>::Builder;
};

struct ServiceOptions {
  // Handlers may block (files, locks, blocking calls): they run on the server's worker pool instead
  // of its loops.
  bool blocking = false;
};

template <class M, class Impl>
concept HasInlineMethod = requires(Impl& impl, Context& context, const typename M::Request& request,
                                   Reply<typename M::Response>& reply) {
  { M::Invoke(impl, context, request, reply) } -> std::same_as<absl::Status>;
};

template <class M, class Impl>
concept HasCoroutineMethod = requires(Impl& impl, Context& context,
                                      Msg<typename M::Request> request,
                                      Reply<typename M::Response>& reply) {
  {
    M::Invoke(impl, context, std::move(request), reply)
    } -> std::same_as<asio::awaitable<absl::Status>>;
};

template <class M, class Impl>
concept HasObjectMethod = requires(Impl& impl, Context& context,
                                   const typename M::Request::NativeTableType& request,
                                   typename M::Response::NativeTableType& reply) {
  { M::Invoke(impl, context, request, reply) } -> std::same_as<absl::Status>;
};

// Impl serves M in one of the three forms.
template <class M, class Impl>
concept ImplementsMethod =
    HasInlineMethod<M, Impl> || HasCoroutineMethod<M, Impl> || HasObjectMethod<M, Impl>;

// The status for the exception that is being handled: INTERNAL, the handler's fault, or CANCELLED
// when the call was.
absl::Status StatusOfException(ServerCall& call);

// Whether the request may be unpacked for the object API (rpc/unpack_plan.h).
absl::Status CheckUnpacked(const BoundMethod& method, const ServerCall& call);

template <class M, class Impl>
void RunInline(const BoundMethod& method, ServerCall& call) {
  auto& impl = *static_cast<Impl*>(method.implementation);
  Reply<typename M::Response> reply(call.pool(), 0);
  absl::Status status;
  try {
    const auto* request = flatbuffers::GetRoot<typename M::Request>(call.body().data());
    if constexpr (HasInlineMethod<M, Impl>) {
      status = M::Invoke(impl, call.context(), *request, reply);
    } else {
      status = CheckUnpacked(method, call);
      if (status.ok()) {
        typename M::Request::NativeTableType native_request;
        typename M::Response::NativeTableType native_reply;
        request->UnPackTo(&native_request);
        status = M::Invoke(impl, call.context(), std::as_const(native_request), native_reply);
        if (status.ok()) reply.Pack(native_reply);
      }
    }
  } catch (...) {
    status = StatusOfException(call);
  }
  call.Finish(std::move(status), reply);
}

template <class M, class Impl>
asio::awaitable<void> ServeCoroutine(Impl& impl, ServerCall& call) {
  Reply<typename M::Response> reply(call.pool(), 0);
  absl::Status status;
  try {
    status = co_await M::Invoke(impl, call.context(), Msg<typename M::Request>(call.TakeRequest()),
                                reply);
  } catch (...) {
    status = StatusOfException(call);
  }
  call.KeepResult(std::move(status), reply);
}

// The end of a coroutine handler: called when it finished, destroyed uncalled when its frame was
// destroyed before, as by an operation that drops its completion handler. The call ends either way.
class CoroutineEnd {
 public:
  explicit CoroutineEnd(ServerCall& call) : call_(&call) {}
  CoroutineEnd(CoroutineEnd&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  CoroutineEnd& operator=(CoroutineEnd&&) = delete;
  ~CoroutineEnd() {
    if (call_ != nullptr) call_->HandlerDestroyed();
  }
  void operator()(const std::exception_ptr& /*caught inside*/) {
    std::exchange(call_, nullptr)->SendResult();
  }

 private:
  ServerCall* call_;
};

template <class M, class Impl>
void RunCoroutine(const BoundMethod& method, ServerCall& call) {
  asio::co_spawn(
      call.context().executor(),
      ServeCoroutine<M>(*static_cast<Impl*>(method.implementation), call),
      asio::bind_cancellation_slot(call.context().cancellation_slot(), CoroutineEnd(call)));
}

// A service's methods, bound to an object of the user's that outlives the server.
class Service {
 public:
  explicit Service(const ServiceInfo& info, ServiceOptions options = {});

  template <class M, class Impl>
  requires ImplementsMethod<M, Impl>
  void Add(Impl& implementation) {
    BoundMethod method{.info = &M::info(),
                       .implementation = const_cast<std::remove_const_t<Impl>*>(&implementation),
                       .verify = &VerifyBody<typename M::Request>};
    if constexpr (HasCoroutineMethod<M, Impl>) {
      method.run = &RunCoroutine<M, Impl>;
    } else {
      method.run = &RunInline<M, Impl>;
      method.on_workers = options_.blocking;
      method.at_once = !options_.blocking;
      if constexpr (!HasInlineMethod<M, Impl>) method.unpack = UnpackPlan::Of(*info_, M::info());
    }
    Bind(method);
  }

  const ServiceInfo& info() const { return *info_; }
  // Every method of the schema; those that were not added answer UNIMPLEMENTED.
  const std::vector<BoundMethod>& methods() const { return methods_; }

 private:
  void Bind(const BoundMethod& method);

  const ServiceInfo* info_;
  ServiceOptions options_;
  std::vector<BoundMethod> methods_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_SERVICE_H_
