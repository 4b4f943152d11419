// The peer Cap'n Proto: its RPC over TCP, by the simple interface that it recommends to begin with;
// one thread a side. Bodies are built where they are sent from.
#include <capnp/ez-rpc.h>
#include <capnp/message.h>
#include <kj/async.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "echo.capnp.h"
#include "farcall/bench/peers/peer.h"

namespace farcall::bench {
namespace {

using capnp_peer::Echo;

constexpr char kHost[] = "127.0.0.1";

// By default a message of 64 MiB and more is taken for an attack.
capnp::ReaderOptions Limits() {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = uint64_t{1} << 30;
  return options;
}

// Room for a body in a message's first piece.
capnp::MessageSize SizeFor(size_t bytes) { return {bytes / sizeof(capnp::word) + 16, 0}; }

std::span<uint8_t> BytesOf(capnp::Data::Builder data) { return {data.begin(), data.size()}; }
std::span<const uint8_t> BytesOf(capnp::Data::Reader data) { return {data.begin(), data.size()}; }

// Of the generated base; nobody deletes one through it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
class EchoServer final : public Echo::Server {
 public:
  explicit EchoServer(const PeerSizes& sizes) : sizes_(sizes), answers_(sizes) {}

  kj::Promise<void> call(CallContext context) override {
    const capnp::Data::Reader request = context.getParams().getData();
    Echo::CallResults::Builder results = context.getResults(SizeFor(sizes_.reply_bytes));
    if (sizes_.echo) {
      results.setData(request);
      return kj::READY_NOW;
    }
    const auto size = static_cast<unsigned>(sizes_.reply_bytes);
    const absl::Status written = answers_.Write(BytesOf(request), BytesOf(results.initData(size)));
    KJ_REQUIRE(written.ok(), written.ToString().c_str());
    return kj::READY_NOW;
  }

 private:
  const PeerSizes sizes_;
  const PeerAnswers answers_;
};
#pragma GCC diagnostic pop

// Makes calls in all slots, on the thread of the event loop.
class Caller final : private kj::TaskSet::ErrorHandler {
 public:
  Caller(Echo::Client echo, PeerCalls& calls)
      : echo_(std::move(echo)),
        calls_(calls),
        under_way_(calls.sizes().outstanding),
        tasks_(*this) {}

  absl::Status Run(kj::WaitScope& scope) {
    for (size_t slot = 0; slot < calls_.sizes().outstanding; ++slot) Begin(slot);
    over_.promise.wait(scope);
    return status_;
  }

 private:
  void Begin(size_t slot) {
    const size_t bytes = calls_.sizes().request_bytes;
    auto request = echo_.callRequest(SizeFor(bytes));
    calls_.Begin(slot, BytesOf(request.initData(static_cast<unsigned>(bytes))));
    tasks_.add(request.send().then([this, slot](capnp::Response<Echo::CallResults>&& reply) {
      if (calls_.End(slot, BytesOf(reply.getData()))) return Begin(slot);
      if (--under_way_ == 0) over_.fulfiller->fulfill();
    }));
  }

  void taskFailed(kj::Exception&& exception) override {
    status_.Update(absl::UnavailableError(exception.getDescription().cStr()));
    over_.fulfiller->fulfill();
  }

  Echo::Client echo_;
  PeerCalls& calls_;
  size_t under_way_;
  absl::Status status_;
  kj::PromiseFulfillerPair<void> over_ = kj::newPromiseAndFulfiller<void>();
  kj::TaskSet tasks_;
};

class Capnp final : public Peer {
 public:
  std::string About() const override {
    return "Cap'n Proto " + std::to_string(CAPNP_VERSION_MAJOR) + "." +
           std::to_string(CAPNP_VERSION_MINOR) + "." + std::to_string(CAPNP_VERSION_MICRO) +
           ", EzRpc, one connection";
  }

  absl::Status Serve(const PeerSizes& sizes,
                     const std::function<void(const std::string&)>& listening) override {
    capnp::EzRpcServer server(kj::heap<EchoServer>(sizes), kHost, 0, Limits());
    kj::WaitScope& scope = server.getWaitScope();
    listening(std::to_string(server.getPort().wait(scope)));
    kj::NEVER_DONE.wait(scope);
    return absl::OkStatus();
  }

  absl::Status Call(const std::string& address, PeerCalls& calls) override {
    capnp::EzRpcClient client(kHost, static_cast<unsigned>(std::stoul(address)), Limits());
    return Caller(client.getMain<Echo>(), calls).Run(client.getWaitScope());
  }
};

}  // namespace

std::unique_ptr<Peer> MakePeer(std::string_view variant) {
  return variant == "rpc" ? std::make_unique<Capnp>() : nullptr;
}

}  // namespace farcall::bench
