#include "farcall/bench/floor/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "farcall/bench/floor/spin.h"

namespace farcall::bench {
namespace {

absl::Status Failed(const char* what) {
  return absl::UnavailableError(std::string(what) + ": " +
                                std::error_code(errno, std::generic_category()).message());
}

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Create() {
  FileDescriptor file(::memfd_create("farcall_floor", MFD_CLOEXEC));
  if (file.get() < 0) return Failed("memfd_create");
  if (::ftruncate(file.get(), sizeof(Both)) != 0) return Failed("ftruncate");
  return Map(std::move(file), /*serving=*/true);
}

absl::StatusOr<SharedMemory> SharedMemory::Open(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) return Failed(path.c_str());
  return Map(std::move(file), /*serving=*/false);
}

absl::StatusOr<SharedMemory> SharedMemory::Map(FileDescriptor file, bool serving) {
  void* memory = ::mmap(nullptr, sizeof(Both), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return Failed("mmap");
  return SharedMemory(std::move(file), static_cast<Both*>(memory), serving);
}

SharedMemory::~SharedMemory() {
  if (memory_ != nullptr) ::munmap(memory_, sizeof(Both));
}

std::string SharedMemory::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_.get());
}

void SharedMemory::Send(const FloorHeader& header) {
  Direction::Line& line = Of(serving_).line;
  line.header = header;
  line.number.store(++sent_, std::memory_order_release);
}

absl::StatusOr<FloorHeader> SharedMemory::Await(std::chrono::seconds patience) {
  const Direction::Line& line = Of(!serving_).line;
  const auto came = [&] { return line.number.load(std::memory_order_acquire) != received_; };
  if (!SpinUntil(came, patience)) {
    return absl::DeadlineExceededError("the other end of the shared memory is silent");
  }
  ++received_;
  const FloorHeader header = line.header;
  if (header.body_bytes > kMaxFloorBodyBytes || header.reply_bytes > kMaxFloorBodyBytes) {
    return absl::InvalidArgumentError("the other end of the shared memory sends too much");
  }
  return header;
}

}  // namespace farcall::bench
