// The entry points of libFuzzer, which has the main function.

#include <time.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "farcall/rpc/log.h"
#include "farcall/tests/fuzz/target.h"

namespace {

// An input that costs more is a finding. libFuzzer's own -timeout is of wall time: a machine that
// stood still is none.
constexpr time_t kMaxSeconds = 10;

time_t CpuSeconds() {
  timespec spent{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return spent.tv_sec;
}

}  // namespace

// Puts the seeds into the folder that comes first in the arguments, where libFuzzer keeps what it
// finds.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  farcall::SetLogSink([](farcall::LogLevel, std::string_view) {}, farcall::LogLevel::kError);
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path folder((*argv)[i]);
    if (!std::filesystem::is_directory(folder)) continue;
    int number = 0;
    for (const std::string& seed : farcall::fuzz::Seeds()) {
      std::ofstream(folder / ("seed-" + std::to_string(++number)), std::ios::binary) << seed;
    }
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const time_t before = CpuSeconds();
  farcall::fuzz::Run(
      farcall::fuzz::Input(std::string_view(reinterpret_cast<const char*>(data), size)));
  FUZZ_CHECK(CpuSeconds() - before <= kMaxSeconds);
  return 0;
}
