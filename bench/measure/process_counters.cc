#include "farcall/bench/measure/process_counters.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "farcall/bench/measure/heap_count.h"

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
  const char* name;
};

// System calls are the last: they would count those that start and stop the others.
absl::StatusOr<std::vector<Wanted>> AllWanted() {
  std::vector<Wanted> all;
  all.push_back({Attributes(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES),
                 &Counts::context_switches, "context switches"});
  const absl::StatusOr<uint64_t> system_call = SystemCallEvent();
  if (!system_call.ok()) return system_call.status();
  all.push_back(
      {Attributes(PERF_TYPE_TRACEPOINT, *system_call), &Counts::syscalls, "system calls"});
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

// What a file of OpenHeapCountOf says now.
uint64_t CountIn(int fd) {
  uint64_t count = 0;
  return pread(fd, &count, sizeof(count), 0) == sizeof(count) ? count : 0;
}

}  // namespace

absl::StatusOr<ProcessCounters> ProcessCounters::Open(std::span<const pid_t> processes) {
  absl::StatusOr<std::vector<Wanted>> all = AllWanted();
  if (!all.ok()) return all.status();
  ProcessCounters counters;
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
  bool all_count = true;
  for (const pid_t process : processes) {
    const int fd = OpenHeapCountOf(process);
    all_count = all_count && fd >= 0;
    if (fd >= 0) counters.heaps_.push_back({.fd = fd});
  }
  if (!all_count) counters.CloseHeaps();
  return counters;
}

ProcessCounters::~ProcessCounters() {
  for (const Event& event : events_) close(event.fd);
  CloseHeaps();
}

void ProcessCounters::CloseHeaps() {
  for (const Heap& heap : heaps_) close(heap.fd);
  heaps_.clear();
}

void ProcessCounters::Start() {
  for (Heap& heap : heaps_) heap.before = CountIn(heap.fd);
  for (auto event = events_.begin(); event != events_.end(); ++event) {
    ioctl(event->fd, PERF_EVENT_IOC_ENABLE, 0);
  }
}

void ProcessCounters::Stop() {
  for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
    ioctl(event->fd, PERF_EVENT_IOC_DISABLE, 0);
  }
  for (Heap& heap : heaps_) heap.after = CountIn(heap.fd);
}

Counts ProcessCounters::Read() const {
  Counts counts;
  for (const Event& event : events_) {
    uint64_t count = 0;
    if (read(event.fd, &count, sizeof(count)) != sizeof(count)) continue;
    counts.*event.count = (counts.*event.count).value_or(0) + count;
  }
  for (const Heap& heap : heaps_) {
    counts.allocations = counts.allocations.value_or(0) + heap.after - heap.before;
  }
  return counts;
}

}  // namespace farcall::bench
