// The peer gRPC, generated stubs and protobuf, over TCP without TLS: its callback interface, which
// it recommends for speed, and its synchronous one, with a thread a call in flight.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "echo.grpc.pb.h"
#include "farcall/bench/peers/peer.h"

namespace farcall::bench {
namespace {

using grpc_peer::Body;
using grpc_peer::Echo;

constexpr std::chrono::seconds kPatience(10);

std::span<uint8_t> BytesOf(std::string& data) {
  return {reinterpret_cast<uint8_t*>(data.data()), data.size()};
}
std::span<const uint8_t> BytesOf(const std::string& data) {
  return {reinterpret_cast<const uint8_t*>(data.data()), data.size()};
}

absl::Status StatusOf(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// What both services do with a request.
grpc::Status Answer(const PeerSizes& sizes, const Body& request, Body& reply) {
  if (sizes.echo) {
    reply.set_data(request.data());
    return grpc::Status::OK;
  }
  std::string& data = *reply.mutable_data();
  data.resize(sizes.reply_bytes);
  const absl::Status written = PeerAnswers(sizes).Write(BytesOf(request.data()), BytesOf(data));
  return {static_cast<grpc::StatusCode>(written.raw_code()), std::string(written.message())};
}

class CallbackEcho final : public Echo::CallbackService {
 public:
  explicit CallbackEcho(const PeerSizes& sizes) : sizes_(sizes) {}
  grpc::ServerUnaryReactor* Call(grpc::CallbackServerContext* context, const Body* request,
                                 Body* reply) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(Answer(sizes_, *request, *reply));
    return reactor;
  }

 private:
  const PeerSizes sizes_;
};

class SyncEcho final : public Echo::Service {
 public:
  explicit SyncEcho(const PeerSizes& sizes) : sizes_(sizes) {}
  grpc::Status Call(grpc::ServerContext* /*context*/, const Body* request, Body* reply) override {
    return Answer(sizes_, *request, *reply);
  }

 private:
  const PeerSizes sizes_;
};

// Where the calls of all threads meet.
class SharedCalls {
 public:
  explicit SharedCalls(PeerCalls& calls) : calls_(calls), under_way_(calls.sizes().outstanding) {}

  void Begin(size_t slot, Body& request) {
    std::string& data = *request.mutable_data();
    data.resize(calls_.sizes().request_bytes);
    const std::lock_guard lock(mutex_);
    calls_.Begin(slot, BytesOf(data));
  }
  // False: the slot has no more calls.
  bool End(size_t slot, const grpc::Status& status, const Body& reply) {
    const std::lock_guard lock(mutex_);
    if (!status.ok()) status_.Update(StatusOf(status));
    if (status_.ok() && calls_.End(slot, BytesOf(reply.data()))) return true;
    if (--under_way_ == 0) over_.notify_all();
    return false;
  }
  absl::Status AwaitEnd() {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return under_way_ == 0; });
    return status_;
  }

 private:
  PeerCalls& calls_;
  std::mutex mutex_;
  std::condition_variable over_;
  size_t under_way_;
  absl::Status status_;
};

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
}

// A slot of the callback interface: each call that ends begins the next one.
class CallbackSlot {
 public:
  CallbackSlot(Echo::Stub& stub, SharedCalls& calls, size_t slot)
      : stub_(stub), calls_(calls), slot_(slot) {}

  void Begin() {
    calls_.Begin(slot_, request_);
    context_.emplace();
    SetDeadline(*context_);
    stub_.async()->Call(&*context_, &request_, &reply_, [this](const grpc::Status& status) {
      if (calls_.End(slot_, status, reply_)) Begin();
    });
  }

 private:
  Echo::Stub& stub_;
  SharedCalls& calls_;
  const size_t slot_;
  std::optional<grpc::ClientContext> context_;
  Body request_;
  Body reply_;
};

class Grpc final : public Peer {
 public:
  explicit Grpc(bool callback) : callback_(callback) {}

  std::string About() const override {
    return "gRPC " + grpc::Version() + (callback_ ? ", callbacks" : ", synchronous") +
           ", protobuf, no TLS, one channel";
  }

  absl::Status Serve(const PeerSizes& sizes,
                     const std::function<void(const std::string&)>& listening) override {
    CallbackEcho callback(sizes);
    SyncEcho sync(sizes);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(-1);
    if (callback_) {
      builder.RegisterService(&callback);
    } else {
      builder.RegisterService(&sync);
    }
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (server == nullptr || port == 0) return absl::UnavailableError("gRPC cannot listen");
    listening(std::to_string(port));
    server->Wait();
    return absl::OkStatus();
  }

  absl::Status Call(const std::string& address, PeerCalls& calls) override {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    const std::unique_ptr<Echo::Stub> stub = Echo::NewStub(grpc::CreateCustomChannel(
        "127.0.0.1:" + address, grpc::InsecureChannelCredentials(), arguments));
    SharedCalls shared(calls);
    const size_t slots = calls.sizes().outstanding;
    if (callback_) {
      std::vector<std::unique_ptr<CallbackSlot>> all;
      for (size_t slot = 0; slot < slots; ++slot) {
        all.push_back(std::make_unique<CallbackSlot>(*stub, shared, slot));
      }
      for (const auto& slot : all) slot->Begin();
      return shared.AwaitEnd();
    }
    std::vector<std::thread> threads;
    for (size_t slot = 1; slot < slots; ++slot) {
      threads.emplace_back([&, slot] { CallInTurn(*stub, shared, slot); });
    }
    CallInTurn(*stub, shared, 0);
    for (std::thread& thread : threads) thread.join();
    return shared.AwaitEnd();
  }

 private:
  static void CallInTurn(Echo::Stub& stub, SharedCalls& calls, size_t slot) {
    Body request;
    Body reply;
    grpc::Status status;
    do {
      calls.Begin(slot, request);
      grpc::ClientContext context;
      SetDeadline(context);
      status = stub.Call(&context, request, &reply);
    } while (calls.End(slot, status, reply));
  }

  const bool callback_;
};

}  // namespace

std::unique_ptr<Peer> MakePeer(std::string_view variant) {
  if (variant != "callback" && variant != "sync") return nullptr;
  return std::make_unique<Grpc>(variant == "callback");
}

}  // namespace farcall::bench
