// A TCP connection over plain socket calls: the least that any TCP transport can do.
#ifndef FARCALL_BENCH_FLOOR_STREAM_H_
#define FARCALL_BENCH_FLOOR_STREAM_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// A listening socket on 127.0.0.1 with the floor's options; `port` 0 takes a free one.
absl::StatusOr<FileDescriptor> ListenOnLoopback(uint16_t port);
absl::StatusOr<uint16_t> PortOf(const FileDescriptor& listener);

// One connection. Not thread-safe. In event mode calls sleep in the kernel (a blocking socket); in
// busy mode they spin on a non-blocking one. A call that makes no progress for `patience` fails
// with DEADLINE_EXCEEDED.
class Stream {
 public:
  static absl::StatusOr<Stream> Connect(uint16_t port, Mode mode, std::chrono::seconds patience);
  // Waits for the next connection, however long, asleep in either mode.
  static absl::StatusOr<Stream> Accept(const FileDescriptor& listener, Mode mode,
                                       std::chrono::seconds patience);

  // Returns when all bytes are the kernel's.
  absl::Status Write(std::span<const uint8_t> bytes);

  // Reads at least one and at most `room.size()` bytes, which must not be 0. Returns 0 only
  // when the peer has closed the connection.
  absl::StatusOr<size_t> Read(std::span<uint8_t> room);

 private:
  Stream(FileDescriptor fd, Mode mode, std::chrono::seconds patience)
      : fd_(std::move(fd)), mode_(mode), patience_(patience) {}

  absl::Status Prepare();
  template <typename Attempt>
  absl::StatusOr<size_t> Repeat(const char* operation, Attempt attempt);

  FileDescriptor fd_;
  Mode mode_;
  std::chrono::seconds patience_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_STREAM_H_
