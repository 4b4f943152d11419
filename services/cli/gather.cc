#include "farcall/services/cli/gather.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "farcall/transports/dial.h"

namespace farcall::cli {
namespace {

namespace fs = std::filesystem;

// What rdma_cm and verbs need, and the software adapters.
constexpr const char* kModules[] = {"ib_core",  "ib_uverbs", "rdma_cm",
                                    "rdma_ucm", "rdma_rxe",  "siw"};
constexpr unsigned kCapIpcLock = 14;  // linux/capability.h
constexpr std::string_view kSocketEnding = ".softnic";

// Empty: there is no such file.
std::string Read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string ReadWord(const fs::path& path) {
  std::string text = Read(path);
  absl::StripTrailingAsciiWhitespace(&text);
  return text;
}

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// "…/libibverbs.so.1.14.44.0" is of rdma-core 44.0: the package's version ends the file's name.
std::string RdmaCoreVersion() {
  for (const absl::string_view line : absl::StrSplit(Read("/proc/self/maps"), '\n')) {
    const size_t at = line.find("/libibverbs.so.");
    if (at == absl::string_view::npos) continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(line.substr(at), '.');
    if (parts.size() >= 6) return absl::StrCat(parts[4], ".", parts[5]);
  }
  return "";
}

std::vector<KernelModule> Modules(const std::string& kernel) {
  const fs::path folder = absl::StrCat("/lib/modules/", kernel);
  // "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: …"; names have '-' for '_' at times.
  std::string known = Read(folder / "modules.dep");
  std::replace(known.begin(), known.end(), '-', '_');
  std::vector<KernelModule> modules;
  for (const char* const name : kModules) {
    using State = KernelModule::State;
    const bool loaded = fs::exists(absl::StrCat("/sys/module/", name));
    const bool available = absl::StrContains(known, absl::StrCat("/", name, ".ko"));
    modules.push_back({name, loaded      ? State::kLoaded
                             : available ? State::kAvailable
                                         : State::kAbsent});
  }
  return modules;
}

std::vector<DeviceFile> DeviceFiles() {
  std::vector<DeviceFile> files;
  for (const std::string& name : NamesIn("/dev/infiniband")) {
    if (name != "rdma_cm" && !absl::StartsWith(name, "uverbs")) continue;
    const std::string path = absl::StrCat("/dev/infiniband/", name);
    files.push_back({path, ::access(path.c_str(), R_OK | W_OK) == 0});
  }
  return files;
}

std::vector<NetworkInterface> Interfaces() {
  std::vector<NetworkInterface> interfaces;
  for (const std::string& name : NamesIn("/sys/class/net")) {
    const fs::path folder = absl::StrCat("/sys/class/net/", name);
    NetworkInterface interface { .name = name };
    const std::string state = ReadWord(folder / "operstate");
    interface.up = state == "up" || state == "unknown";  // some drivers never know
    interface.ethernet = ReadWord(folder / "type") == "1";
    if (!absl::SimpleAtoi(ReadWord(folder / "mtu"), &interface.mtu)) continue;
    interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

Limit LimitOf(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return {};
  const auto bytes = [](rlim_t value) { return value == RLIM_INFINITY ? kUnlimited : value; };
  return {bytes(limit.rlim_cur), bytes(limit.rlim_max)};
}

bool IgnoresMemlock() {
  for (const absl::string_view line : absl::StrSplit(Read("/proc/self/status"), '\n')) {
    if (!absl::StartsWith(line, "CapEff:")) continue;
    const std::string digits(line.substr(line.find_first_not_of("\t ", 7)));
    return (std::strtoull(digits.c_str(), nullptr, 16) >> kCapIpcLock & 1) != 0;
  }
  return false;
}

void AddShm(Facts& facts) {
  const absl::StatusOr<std::string> folder = ShmFolder();
  facts.shm = folder.status();
  if (!folder.ok()) return;
  facts.shm_folder = *folder;
  // Not the folder's own files: dead processes leave theirs.
  for (const absl::string_view line : absl::StrSplit(Read("/proc/net/unix"), '\n')) {
    std::string_view path(line.data(), line.size());
    path.remove_prefix(std::min(path.find('/'), path.size()));
    if (!path.starts_with(*folder + "/") || !path.ends_with(kSocketEnding)) continue;
    path.remove_prefix(folder->size() + 1);
    facts.shm_listeners.emplace_back(path.substr(0, path.size() - kSocketEnding.size()));
  }
  auto& names = facts.shm_listeners;
  std::sort(names.begin(), names.end());
  // Connections that were accepted have their listener's path, too.
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace

Facts Gather() {
  Facts facts;
  facts.farcall = FARCALL_VERSION;
  facts.rdma_core = RdmaCoreVersion();
  utsname system{};
  if (::uname(&system) == 0) facts.kernel = system.release;
  facts.cpus = std::max(1U, std::thread::hardware_concurrency());
  facts.spins = EventLoop(EventLoopOptions{.helper_thread = false}).mode() != ProgressMode::kEvent;
  facts.modules = Modules(facts.kernel);
  facts.device_files = DeviceFiles();
  facts.kernel_adapters = NamesIn("/sys/class/infiniband");
  facts.adapters = verbs::SurveyAdapters();
  facts.rdma = verbs::MakeVerbsDevice().status();
  facts.interfaces = Interfaces();
  facts.memlock = LimitOf(RLIMIT_MEMLOCK);
  facts.ignores_memlock = IgnoresMemlock();
  facts.open_files = LimitOf(RLIMIT_NOFILE);
  AddShm(facts);
  return facts;
}

}  // namespace farcall::cli
