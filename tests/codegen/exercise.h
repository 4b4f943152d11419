// Calls every method of services that nobody has written by hand: tests/codegen/implement.cc prints
// the classes that implement them, and what is here gives them something to say and checks it.
//
// A method answers with a message that is made up from its name and the schema, and only to the
// request that is made up in the same way: a call that reaches another method, or loses a field on
// its way, fails.

#ifndef FARCALL_TESTS_CODEGEN_EXERCISE_H_
#define FARCALL_TESTS_CODEGEN_EXERCISE_H_

#include <flatbuffers/flatbuffers.h>
#include <flatbuffers/reflection_generated.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/channel.h"
#include "farcall/rpc/method.h"
#include "farcall/rpc/server.h"
#include "farcall/rpc/service.h"
#include "farcall/rpc/stub.h"
#include "farcall/rpc/transport.h"

namespace farcall_test {

enum class Side { kRequest, kResponse };

// The bytes of the made-up message of a method.
std::string SampleBytes(const ::farcall::ServiceInfo& service, std::string_view method, Side side);

template <class T>
typename T::NativeTableType Unpacked(const T& message) {
  typename T::NativeTableType object;
  message.UnPackTo(&object);
  return object;
}

template <class T>
typename T::NativeTableType Sample(const ::farcall::ServiceInfo& service, std::string_view method,
                                   Side side) {
  return Unpacked(*::flatbuffers::GetRoot<T>(SampleBytes(service, method, side).data()));
}

// Messages of one content have one spelling.
template <class T>
std::string Canonical(const typename T::NativeTableType& object) {
  ::flatbuffers::FlatBufferBuilder builder;
  builder.Finish(T::Pack(builder, &object));
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

// The service's side of a method.
template <class M>
class Answer {
 public:
  using Request = typename M::Request;
  using Response = typename M::Response;

  explicit Answer(const ::farcall::ServiceInfo& service) : service_(service) {}

  ::absl::Status Object(const typename Request::NativeTableType& request,
                        typename Response::NativeTableType& reply) const {
    const auto expected = Sample<Request>(service_, M::info().name, Side::kRequest);
    if (Canonical<Request>(request) != Canonical<Request>(expected)) {
      return ::absl::InvalidArgumentError("the request is another than the one that was sent");
    }
    reply = Sample<Response>(service_, M::info().name, Side::kResponse);
    return ::absl::OkStatus();
  }

  ::absl::Status View(const Request& request, ::farcall::Reply<Response>& reply) const {
    typename Response::NativeTableType object;
    ::absl::Status status = Object(Unpacked(request), object);
    reply.Pack(object);
    return status;
  }

  ::boost::asio::awaitable<::absl::Status> Coroutine(::farcall::Msg<Request> request,
                                                     ::farcall::Reply<Response>& reply) const {
    co_return View(*request, reply);
  }

 private:
  const ::farcall::ServiceInfo& service_;
};

// A server with the services, a client's channel to it, and the score.
class Exercise {
 public:
  explicit Exercise(std::shared_ptr<::farcall::Transport> transport);

  // Fails the exercise unless `good`; counts it as a check.
  void Check(bool good, std::string_view method, std::string_view what);

  // Before Start. Checks what the service says of itself, too.
  void Add(const ::farcall::Service& service);
  void Start();
  ::farcall::Channel channel() const { return *channel_; }

  template <class M>
  void CheckReply(const ::farcall::ServiceInfo& service,
                  const ::absl::StatusOr<::farcall::Msg<typename M::Response>>& reply,
                  std::string_view how) {
    using Response = typename M::Response;
    if (!reply.ok()) {
      return Check(false, M::info().name, std::string(how) + ": " + reply.status().ToString());
    }
    const auto expected = Sample<Response>(service, M::info().name, Side::kResponse);
    Check(Canonical<Response>(Unpacked(**reply)) == Canonical<Response>(expected), M::info().name,
          std::string(how) + ": the reply is another than the one that was sent");
  }

  // Calls a method twice: `call` blocks on a request that was built, if `built`, or on an object;
  // `async` takes the other. `make` is the client's way to a builder.
  template <class M, bool built, class Call, class New, class Async>
  void Unary(const ::farcall::ServiceInfo& service, Call call, New make, Async async) {
    const auto object = Sample<typename M::Request>(service, M::info().name, Side::kRequest);
    auto builder = make();
    builder.Finish(M::Request::Pack(builder, &object));
    if constexpr (built) {
      CheckReply<M>(service, call(std::move(builder)), "blocking, built");
      CheckReply<M>(service, async(object).get(), "asynchronous, object");
    } else {
      CheckReply<M>(service, call(object), "blocking, object");
      CheckReply<M>(service, async(std::move(builder)).get(), "asynchronous, built");
    }
  }

  void Streaming(const ::farcall::MethodInfo& method, const ::absl::Status& status);

  // The exit status, with the score on standard output.
  int Finish() const;

 private:
  std::shared_ptr<::farcall::Transport> transport_;
  ::farcall::Server server_;
  std::unique_ptr<::farcall::Channel> channel_;
  int services_ = 0;
  int checks_ = 0;
  int failures_ = 0;
};

// Adds the services, starts the exercise and calls everything: printed by implement.cc.
void RunServices(Exercise& exercise);

}  // namespace farcall_test

#endif  // FARCALL_TESTS_CODEGEN_EXERCISE_H_
