#include "farcall/tests/faults/process.h"

#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "farcall/tests/rpc/probe.h"

namespace farcall::faults {
namespace {

std::string Folder(pid_t process) { return "/proc/" + std::to_string(process); }

std::string Line(const std::string& file, const std::string& name) {
  std::ifstream status(file);
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(name + ":")) continue;
    const size_t value = line.find_first_not_of(" \t", name.size() + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

}  // namespace

std::set<int> Descriptors(pid_t process) {
  const std::string folder = Folder(process) + "/fd";
  std::set<int> descriptors;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    char target[256];  // of this process: the one that lists is in the list, and gone afterwards
    if (::readlink(entry.path().c_str(), target, sizeof target) < 0) continue;
    descriptors.insert(std::stoi(entry.path().filename()));
  }
  return descriptors;
}

size_t Threads(pid_t process) { return std::stoul(StatusLine(process, "Threads")); }

Duration CpuTime(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

uint64_t Sleeps(pid_t process) {
  uint64_t sleeps = 0;
  for (const auto& thread : std::filesystem::directory_iterator(Folder(process) + "/task")) {
    sleeps += std::stoul(Line(thread.path() / "status", "voluntary_ctxt_switches"));
  }
  return sleeps;
}

uint64_t AddressSpace(pid_t process) {
  return std::stoull(StatusLine(process, "VmSize")) * 1024;  // "… kB"
}

std::string StatusLine(pid_t process, const std::string& name) {
  return Line(Folder(process) + "/status", name);
}

bool WaitUntilStopped(pid_t process) {
  return testing::Eventually([&] { return StatusLine(process, "State").starts_with("T"); });
}

}  // namespace farcall::faults
