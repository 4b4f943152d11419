// rpc/frame: heads to bytes and back.
#include <benchmark/benchmark.h>

#include <array>
#include <string>

#include "farcall/bench/micro/heap_count.h"
#include "farcall/rpc/frame.h"
#include "farcall/rpc/metadata.h"

namespace farcall::bench {
namespace {

constexpr FrameHeader kRequest = {
    .type = FrameType::kRequest, .call = 42, .method = 0x1234567890, .timeout_ns = 5'000'000};

// As a caller adds them: a trace, a token and two small ones.
const Metadata& FourEntries() {
  static const auto* entries = new Metadata{{"traceparent", std::string(55, 't')},
                                            {"authorization", std::string(120, 'a')},
                                            {"tenant", "blue"},
                                            {"retry", "0"}};
  return *entries;
}

void EncodesHeader(benchmark::State& state) {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  FrameHeader header = kRequest;
  for (auto _ : state) {
    ++header.call;
    EncodeHeader(header, bytes.data());
    benchmark::DoNotOptimize(bytes);
  }
}
BENCHMARK(EncodesHeader)->Name("frame/encode_header");

void DecodesHeader(benchmark::State& state) {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  EncodeHeader(kRequest, bytes.data());
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes);
    absl::StatusOr<FrameHeader> header = DecodeHeader(bytes);
    if (!header.ok()) return state.SkipWithError("the header does not decode");
    benchmark::DoNotOptimize(header);
  }
}
BENCHMARK(DecodesHeader)->Name("frame/decode_header");

// Without metadata (0) and with four entries (1).
void BuildsHead(benchmark::State& state) {
  BufferPool pool;
  const Metadata none;
  const Metadata& metadata = state.range(0) == 0 ? none : FourEntries();
  const CountAllocations count(state);
  for (auto _ : state) {
    HeadBuilder builder(pool);
    if (!AddMetadata(metadata, builder).ok()) return state.SkipWithError("metadata refused");
    benchmark::DoNotOptimize(builder.Finish(kRequest));
  }
}
BENCHMARK(BuildsHead)->Name("frame/build_head")->ArgName("metadata")->Arg(0)->Arg(1);

void ChecksFields(benchmark::State& state) {
  BufferPool pool;
  HeadBuilder builder(pool);
  if (state.range(0) != 0 && !AddMetadata(FourEntries(), builder).ok()) {
    return state.SkipWithError("metadata refused");
  }
  const Head head = builder.Finish(kRequest);
  for (auto _ : state) {
    const absl::Status checked = CheckFields(FrameType::kRequest, head.bytes());
    if (!checked.ok()) return state.SkipWithError("fields refused");
  }
}
BENCHMARK(ChecksFields)->Name("frame/check_fields")->ArgName("metadata")->Arg(0)->Arg(1);

}  // namespace
}  // namespace farcall::bench
