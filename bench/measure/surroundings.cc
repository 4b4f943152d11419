// What a report says about the machine and the build.
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "farcall/bench/measure/record.h"

namespace farcall::bench {
namespace {

// The value of the first line "name : value" of the file; empty when there is none.
std::string ValueOf(const char* file, std::string_view name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, name.size(), name) != 0) continue;
    const size_t colon = line.find(':');
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    return colon == std::string::npos || value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

}  // namespace

Facts DescribeMachine() {
  utsname kernel{};
  uname(&kernel);
  const double page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
  const bool virtual_machine =
      ValueOf("/proc/cpuinfo", "flags").find(" hypervisor") != std::string::npos;
  return {{"processor", ValueOf("/proc/cpuinfo", "model name")},
          {"cores", static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN))},
          {"memory_mb", static_cast<double>(sysconf(_SC_PHYS_PAGES)) * page_bytes / 1e6},
          {"kernel", std::string(kernel.sysname) + " " + kernel.release},
          {"architecture", std::string(kernel.machine)},
          {"virtual_machine", virtual_machine ? 1.0 : 0.0}};
}

Facts DescribeToolchain() {
#if defined(__clang__)
  std::string compiler = "clang " __clang_version__;
#else
  std::string compiler = "g++ " __VERSION__;
#endif
#if defined(__OPTIMIZE__)
  const double optimised = 1;
#else
  const double optimised = 0;
#endif
  return {{"compiler", std::move(compiler)},
          {"glibc", std::string(gnu_get_libc_version())},
          {"optimised", optimised}};
}

}  // namespace farcall::bench
