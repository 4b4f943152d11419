// Memory of two processes and one cache line each way that tells of a message in it: the least that
// a transport between processes of one host can do. Both sides spin.
//
// A message of up to kInLine bytes travels in the line; a larger one is built where its receiver
// reads it, and costs that one memcpy.
#ifndef FARCALL_BENCH_FLOOR_SHARED_MEMORY_H_
#define FARCALL_BENCH_FLOOR_SHARED_MEMORY_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/bench/floor/message.h"
#include "farcall/bench/floor/stream.h"

namespace farcall::bench {

// One end. Not thread-safe. At most one message is on its way in each direction.
class SharedMemory {
 public:
  static constexpr size_t kInLine = 48;

  // Makes the memory, and is its serving end. It goes when both ends have gone.
  static absl::StatusOr<SharedMemory> Create();
  // The other end: `path` as Create's path() gave it in a process of this user that lives.
  static absl::StatusOr<SharedMemory> Open(const std::string& path);

  SharedMemory(SharedMemory&& other) noexcept
      : file_(std::move(other.file_)),
        memory_(std::exchange(other.memory_, nullptr)),
        sent_(other.sent_),
        received_(other.received_),
        serving_(other.serving_) {}
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  std::string path() const;

  // Where the body of the next message is built. What was built stays until it is built over.
  std::span<uint8_t> Body(size_t bytes) { return Of(serving_).Body(bytes); }
  // Tells the other end of it. The body has header.body_bytes.
  void Send(const FloorHeader& header);

  // Spins until a message comes, and says what it is. DEADLINE_EXCEEDED after `patience`;
  // INVALID_ARGUMENT: longer than a body may be.
  absl::StatusOr<FloorHeader> Await(std::chrono::seconds patience);
  // Its body, in the other end's memory until this end sends.
  std::span<const uint8_t> Received(const FloorHeader& header) {
    return Of(!serving_).Body(header.body_bytes);
  }

 private:
  struct Direction {
    struct alignas(64) Line {
      std::atomic<uint64_t> number;  // of the last message; counts up from 1
      FloorHeader header;
      uint8_t body[kInLine];
    };
    Line line;
    alignas(4096) uint8_t large[kMaxFloorBodyBytes];

    std::span<uint8_t> Body(size_t bytes) { return {bytes <= kInLine ? line.body : large, bytes}; }
  };
  static_assert(sizeof(Direction::Line) == 64);
  struct Both {
    Direction to_server, to_client;
  };

  SharedMemory(FileDescriptor file, Both* memory, bool serving)
      : file_(std::move(file)), memory_(memory), serving_(serving) {}
  static absl::StatusOr<SharedMemory> Map(FileDescriptor file, bool serving);
  Direction& Of(bool of_server) { return of_server ? memory_->to_client : memory_->to_server; }

  FileDescriptor file_;
  Both* memory_;
  uint64_t sent_ = 0, received_ = 0;
  bool serving_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_SHARED_MEMORY_H_
