// rpc/method_table: from a method's id to a request that a handler may read.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "farcall/bench/micro/heap_count.h"
#include "farcall/rpc/builder.h"
#include "farcall/rpc/method_table.h"
#include "farcall/services/echo/echo_impl.h"

namespace farcall::bench {
namespace {

void FindsAndVerifies(benchmark::State& state) {
  services::EchoImpl echo;
  MethodTable methods;
  if (!methods.Add(services::Echo::Bind(echo)).ok()) {
    return state.SkipWithError("the service is refused");
  }
  const auto bytes = static_cast<size_t>(state.range(0));
  BufferPool received;
  Builder<services::BytesRequest> builder(std::make_shared<BufferPool>(), bytes);
  builder.Finish(
      services::CreateBytesRequest(builder, builder.CreateVector(std::vector<uint8_t>(bytes))));
  // Where a transport would put it: a sender's bytes need not be aligned.
  const absl::StatusOr<Buffer> body = CopyToBuffer(
      received,
      {reinterpret_cast<const std::byte*>(builder.GetBufferPointer()), builder.GetSize()});
  if (!body.ok()) return state.SkipWithError("no memory for the request");

  const MessageLimits limits;
  uint64_t id = services::Echo::BytesMethod::info().id;
  const CountAllocations count(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(id);
    const BoundMethod* method = methods.Find(id);
    if (method == nullptr || !method->verify(*body, limits).ok()) {
      return state.SkipWithError("the request is refused");
    }
  }
}
BENCHMARK(FindsAndVerifies)->Name("dispatch/find_and_verify")->ArgName("bytes")->Arg(32)->Arg(4096);

}  // namespace
}  // namespace farcall::bench
