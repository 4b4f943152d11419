#include "farcall/bench/measure/kernel_counters.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace farcall::bench {
namespace {

// A descriptor that goes with its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status Refused(const std::string& what) {
  return absl::ErrnoToStatus(errno, "the kernel does not let us count (root may): " + what);
}

// The number of the tracepoint of system calls that begin. Tracefs need not be mounted: a mount of
// our own has no place in any folder, and goes with its descriptor.
absl::StatusOr<uint64_t> SystemCallEvent() {
  const Descriptor filesystem(fsopen("tracefs", FSOPEN_CLOEXEC));
  if (filesystem.get() < 0 ||
      fsconfig(filesystem.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return Refused("tracefs");
  }
  const Descriptor mount(fsmount(filesystem.get(), FSMOUNT_CLOEXEC, 0));
  if (mount.get() < 0) return Refused("a mount of tracefs");
  const Descriptor file(
      openat(mount.get(), "events/raw_syscalls/sys_enter/id", O_RDONLY | O_CLOEXEC));
  char text[32];
  const ssize_t bytes = file.get() < 0 ? -1 : read(file.get(), text, sizeof(text));
  uint64_t id = 0;
  if (bytes <= 0 || std::from_chars(text, text + bytes, id).ec != std::errc()) {
    return Refused("tracepoint raw_syscalls:sys_enter");
  }
  return id;
}

perf_event_attr Attributes(uint32_t type, uint64_t config) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = type;
  attributes.config = config;
  attributes.disabled = 1;
  attributes.inherit = 1;
  return attributes;
}

struct Wanted {
  perf_event_attr attributes;
  std::optional<uint64_t> Counts::*count;
  std::string name;
};

// A probe on a function of the C library: the file that it was loaded from, and where in there.
absl::StatusOr<Wanted> ProbeOn(const char* function) {
  uint32_t type = 0;
  if (!(std::ifstream("/sys/bus/event_source/devices/uprobe/type") >> type)) {
    return absl::UnimplementedError("this kernel has no probes on functions (uprobe)");
  }
  void* const address = dlsym(RTLD_DEFAULT, function);
  Dl_info library{};
  if (address == nullptr || dladdr(address, &library) == 0) {
    return absl::UnimplementedError(std::string("the C library has no ") + function);
  }
  perf_event_attr probe = Attributes(type, 0);
  probe.uprobe_path = reinterpret_cast<uintptr_t>(library.dli_fname);
  // A shared library's text lies in its file as far behind its begin as in memory.
  probe.probe_offset =
      reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(library.dli_fbase);
  return Wanted{probe, &Counts::allocations, function};
}

// System calls are the last: they would count those that start and stop the others.
absl::StatusOr<std::vector<Wanted>> AllWanted() {
  std::vector<Wanted> all;
  for (const char* function :
       {"malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign"}) {
    absl::StatusOr<Wanted> probe = ProbeOn(function);
    if (!probe.ok()) return probe.status();
    const bool known = std::any_of(all.begin(), all.end(), [&](const Wanted& other) {  // an alias
      return other.attributes.probe_offset == probe->attributes.probe_offset;
    });
    if (!known) all.push_back(*std::move(probe));
  }
  all.push_back({Attributes(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES),
                 &Counts::context_switches, "context switches"});
  const absl::StatusOr<uint64_t> system_call = SystemCallEvent();
  if (!system_call.ok()) return system_call.status();
  all.push_back({Attributes(PERF_TYPE_TRACEPOINT, *system_call), &Counts::syscalls,
                 "system calls"});
  return all;
}

std::vector<pid_t> ThreadsOf(std::span<const pid_t> processes) {
  std::vector<pid_t> threads;
  for (const pid_t process : processes) {
    std::error_code error;
    const std::filesystem::path tasks = "/proc/" + std::to_string(process) + "/task";
    std::filesystem::directory_iterator task(tasks, error);
    for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
      threads.push_back(static_cast<pid_t>(std::atoi(task->path().filename().c_str())));
    }
  }
  return threads;
}

}  // namespace

absl::StatusOr<KernelCounters> KernelCounters::Open(std::span<const pid_t> processes) {
  absl::StatusOr<std::vector<Wanted>> all = AllWanted();
  if (!all.ok()) return all.status();
  KernelCounters counters;
  const std::vector<pid_t> threads = ThreadsOf(processes);
  for (Wanted& wanted : *all) {
    for (auto thread = threads.rbegin(); thread != threads.rend(); ++thread) {
      const auto fd = static_cast<int>(syscall(SYS_perf_event_open, &wanted.attributes, *thread,
                                               /*cpu=*/-1, /*group=*/-1, PERF_FLAG_FD_CLOEXEC));
      if (fd < 0 && errno == ESRCH) continue;  // the thread has ended
      if (fd < 0) return Refused(wanted.name);
      counters.events_.push_back({fd, wanted.count});
    }
  }
  return counters;
}

KernelCounters::~KernelCounters() {
  for (const Event& event : events_) close(event.fd);
}

void KernelCounters::Start() {
  for (auto event = events_.begin(); event != events_.end(); ++event) {
    ioctl(event->fd, PERF_EVENT_IOC_ENABLE, 0);
  }
}

void KernelCounters::Stop() {
  for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
    ioctl(event->fd, PERF_EVENT_IOC_DISABLE, 0);
  }
}

Counts KernelCounters::Read() const {
  Counts counts;
  for (const Event& event : events_) {
    uint64_t count = 0;
    if (read(event.fd, &count, sizeof(count)) != sizeof(count)) continue;
    counts.*event.count = (counts.*event.count).value_or(0) + count;
  }
  return counts;
}

}  // namespace farcall::bench
