#include "farcall/bench/floor/shared_slots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "farcall/bench/floor/spin.h"

namespace farcall::bench {
namespace {

constexpr size_t kPage = 4096;

size_t WholePages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

size_t LinesBytes() { return WholePages(SharedSlots::kMaxSlots * 2 * 64); }

size_t FileBytes(const SharedSlots::Shape& shape) {
  return LinesBytes() + shape.slots * WholePages(shape.body_bytes);
}

absl::Status Check(const SharedSlots::Shape& shape) {
  if (shape.slots >= 1 && shape.slots <= SharedSlots::kMaxSlots &&
      shape.body_bytes >= kMinFloorBodyBytes && shape.body_bytes <= kMaxFloorBodyBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("shared memory has 1 to 64 slots for bodies of 16 B to 64 MiB");
}

}  // namespace

absl::StatusOr<SharedSlots> SharedSlots::Create(const Shape& shape) {
  absl::Status good = Check(shape);
  if (!good.ok()) return good;
  FileDescriptor file(::memfd_create("farcall_floor_slots", MFD_CLOEXEC));
  if (file.get() < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  if (::ftruncate(file.get(), static_cast<off_t>(FileBytes(shape))) != 0) {
    return absl::ErrnoToStatus(errno, "ftruncate");
  }
  return Map(std::move(file), shape);
}

absl::StatusOr<SharedSlots> SharedSlots::Open(const std::string& path, const Shape& shape) {
  absl::Status good = Check(shape);
  if (!good.ok()) return good;
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) return absl::ErrnoToStatus(errno, path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return absl::ErrnoToStatus(errno, path);
  if (static_cast<size_t>(status.st_size) != FileBytes(shape)) {
    return absl::InvalidArgumentError(path + " has slots of another shape");
  }
  return Map(std::move(file), shape);
}

absl::StatusOr<SharedSlots> SharedSlots::Map(FileDescriptor file, const Shape& shape) {
  void* memory =
      ::mmap(nullptr, FileBytes(shape), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap");
  return SharedSlots(std::move(file), static_cast<uint8_t*>(memory), shape);
}

SharedSlots::~SharedSlots() {
  if (memory_ != nullptr) ::munmap(memory_, FileBytes(shape_));
}

std::string SharedSlots::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_.get());
}

std::span<uint8_t> SharedSlots::Body(uint64_t call, size_t bytes) {
  const size_t slot = call % shape_.slots;
  return {memory_ + LinesBytes() + slot * WholePages(shape_.body_bytes), bytes};
}

void SharedSlots::Tell(Line& line, uint64_t call, const Word& word) {
  line.word = word;
  line.call.store(call, std::memory_order_release);
}

absl::StatusOr<SharedSlots::Word> SharedSlots::Await(const Line& line, uint64_t call,
                                                     std::chrono::seconds patience) const {
  const auto came = [&] { return line.call.load(std::memory_order_acquire) == call; };
  if (!SpinUntil(came, patience)) {
    return absl::DeadlineExceededError("the other end of the shared slots is silent");
  }
  const Word word = line.word;
  const auto [bytes, reply_bytes] = word.header;
  if (std::min(bytes, reply_bytes) < kMinFloorBodyBytes ||
      std::max(bytes, reply_bytes) > shape_.body_bytes) {
    return absl::InvalidArgumentError("the other end of the shared slots sends impossible lengths");
  }
  return word;
}

}  // namespace farcall::bench
