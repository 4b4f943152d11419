// The main function of a target where there is no libFuzzer: runs the seeds, and the files and the
// folders of files that are named in the arguments.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "farcall/rpc/log.h"
#include "farcall/tests/fuzz/target.h"

namespace {

void Replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::printf("%s\n", path.c_str());
  std::fflush(stdout);  // the last line names what ended the program
  farcall::fuzz::Run(farcall::fuzz::Input(text));
}

}  // namespace

int main(int argc, char** argv) {
  farcall::SetLogSink([](farcall::LogLevel, std::string_view) {}, farcall::LogLevel::kError);
  int number = 0;
  for (const std::string& seed : farcall::fuzz::Seeds()) {
    std::printf("seed-%d\n", ++number);
    std::fflush(stdout);
    farcall::fuzz::Run(farcall::fuzz::Input(seed));
  }
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      Replay(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) Replay(entry.path());
  }
  return 0;
}
