// Calls from stub to service and back, with no wire: client and server share one loop, which the
// benchmark's thread drives.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "farcall/bench/micro/heap_count.h"
#include "farcall/rpc/channel.h"
#include "farcall/rpc/server.h"
#include "farcall/services/echo/echo_impl.h"
#include "farcall/transports/loopback/loopback.h"

namespace farcall::bench {
namespace {

class Stage {
 public:
  // Not OK: what could not be set up.
  absl::Status SetUp() {
    absl::Status added = server_.Add(services::Echo::Bind(echo_));
    if (!added.ok()) return added;
    const absl::StatusOr<Endpoint> address =
        server_.Listen(transport_, {.scheme = "loopback", .host = {}, .path = "micro"});
    if (!address.ok()) return address.status();
    channel_ = std::make_unique<Channel>(transport_, *address, ChannelOptions{.loop = loop_});
    client_ = std::make_unique<services::Echo::Client>(*channel_);
    return client_->Bytes(Request(0), {.wait_for_ready = true}).status();
  }

  Builder<services::BytesRequest> Request(size_t bytes) {
    Builder<services::BytesRequest> request = client_->NewBytes(bytes);
    uint8_t* data = nullptr;
    const auto vector = request.CreateUninitializedVector<uint8_t>(bytes, &data);
    request.Finish(services::CreateBytesRequest(request, vector));
    return request;
  }

  services::Echo::Client& client() { return *client_; }
  const Channel& channel() const { return *channel_; }

 private:
  const std::shared_ptr<EventLoop> loop_ = std::make_shared<EventLoop>(
      EventLoopOptions{.mode = ProgressMode::kBusy, .helper_thread = false});
  const std::shared_ptr<Transport> transport_ =
      MakeLoopbackTransport({.network = MakeLoopbackNetwork(), .pool = nullptr, .limits = {}});
  services::EchoImpl echo_;
  Server server_{{.external_loops = {loop_}}};
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<services::Echo::Client> client_;
};

// The caller's part before the loop: the request built in the connection's memory, its head, its
// deadline.
void Prepares(benchmark::State& state) {
  Stage stage;
  if (absl::Status ready = stage.SetUp(); !ready.ok()) {
    return state.SkipWithError(ready.ToString().c_str());
  }
  const CountAllocations count(state);
  for (auto _ : state) {
    Builder<services::BytesRequest> request = stage.Request(32);
    benchmark::DoNotOptimize(
        PrepareCall(stage.channel(), services::Echo::BytesMethod::info(), request, {}));
  }
}
BENCHMARK(Prepares)->Name("call/build_and_prepare");

void CallsBlocking(benchmark::State& state) {
  Stage stage;
  if (absl::Status ready = stage.SetUp(); !ready.ok()) {
    return state.SkipWithError(ready.ToString().c_str());
  }
  const auto bytes = static_cast<size_t>(state.range(0));
  const CountAllocations count(state);
  for (auto _ : state) {
    absl::StatusOr<Msg<services::BytesReply>> reply = stage.client().Bytes(stage.Request(bytes));
    if (!reply.ok()) return state.SkipWithError(reply.status().ToString().c_str());
    benchmark::DoNotOptimize(reply);
  }
}
BENCHMARK(CallsBlocking)->Name("call/blocking")->ArgName("bytes")->Arg(32)->Arg(4096);

constexpr int kOutstanding = 64;

// Starts calls together and ends with the last of them.
class Wave final : public BlockingTask {
 public:
  explicit Wave(Stage& stage) : stage_(stage) {}
  const absl::Status& status() const { return status_; }
  void Run() override {
    left_ = kOutstanding;
    for (int i = 0; i < kOutstanding; ++i) {
      stage_.client().AsyncBytes(stage_.Request(32), {},
                                 [this](const absl::StatusOr<Msg<services::BytesReply>>& reply) {
                                   if (!reply.ok()) status_ = reply.status();
                                   if (--left_ == 0) Finish();
                                 });
    }
  }

 private:
  Stage& stage_;
  absl::Status status_;
  int left_ = 0;
};

void CallsTogether(benchmark::State& state) {
  Stage stage;
  if (absl::Status ready = stage.SetUp(); !ready.ok()) {
    return state.SkipWithError(ready.ToString().c_str());
  }
  Wave wave(stage);
  const CountAllocations count(state, kOutstanding);
  for (auto _ : state) {
    absl::Status ran = stage.channel().loop().RunBlocking(wave);
    if (!ran.ok() || !wave.status().ok()) return state.SkipWithError("a call failed");
  }
  state.SetItemsProcessed(state.iterations() * kOutstanding);
}
BENCHMARK(CallsTogether)->Name("call/64_async_together");

}  // namespace
}  // namespace farcall::bench
