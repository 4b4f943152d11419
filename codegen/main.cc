// farcall-gen: typed client and server stubs from FlatBuffers schemas.

#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "farcall/codegen/generate.h"
#include "farcall/codegen/options.h"

namespace {

constexpr int kUsageError = 2;

int Run(const std::vector<std::string>& arguments) {
  farcall::codegen::Options options;
  const std::string problem = farcall::codegen::ParseOptions(arguments, options);
  if (!problem.empty()) {
    std::cerr << "farcall-gen: " << problem << " (see farcall-gen --help)\n";
    return kUsageError;
  }
  if (options.help) {
    std::cout << farcall::codegen::kUsage;
    return 0;
  }
  if (options.version) {
    std::cout << "farcall-gen " << FARCALL_VERSION << '\n';
    return 0;
  }
  return farcall::codegen::Generate(options, std::cerr) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run({argv + 1, argv + argc});
  } catch (const std::exception& failure) {
    std::cerr << "farcall-gen: " << failure.what() << '\n';
    return 1;
  }
}
