// Memory of two processes for bodies that are on their way several at once: a slot a call, each
// with its own body and a cache line each way that tells of it. Both sides spin.
#ifndef FARCALL_BENCH_FLOOR_SHARED_SLOTS_H_
#define FARCALL_BENCH_FLOOR_SHARED_SLOTS_H_

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

// One end. Not thread-safe. Calls are numbered from 1; a call uses slot `number % slots()`, so that
// it begins when the one `slots()` before it is over.
class SharedSlots {
 public:
  // As many bodies as slots, each of up to `body_bytes`.
  struct Shape {
    size_t slots = 0;
    size_t body_bytes = 0;
  };
  static constexpr size_t kMaxSlots = 64;

  // What a line says of a message. A body of kMinFloorBodyBytes is its stamps, and these are here;
  // a larger one lies in the slot.
  struct Word {
    FloorHeader header;
    Stamps stamps;
  };

  // Makes the memory. It goes when both ends have gone. INVALID_ARGUMENT: no slots or more than
  // kMaxSlots, or bodies of a length that no body may have.
  static absl::StatusOr<SharedSlots> Create(const Shape& shape);
  // The other end, of the same shape: `path` as Create's path() gave it in a process of this user
  // that lives.
  static absl::StatusOr<SharedSlots> Open(const std::string& path, const Shape& shape);

  SharedSlots(SharedSlots&& other) noexcept
      : file_(std::move(other.file_)),
        memory_(std::exchange(other.memory_, nullptr)),
        shape_(other.shape_) {}
  SharedSlots& operator=(SharedSlots&&) = delete;
  ~SharedSlots();

  std::string path() const;
  const Shape& shape() const { return shape_; }

  // The body of a call, of its request or of its reply: the sender's until it tells of it, the
  // other end's from then on. Requires bytes <= shape().body_bytes.
  std::span<uint8_t> Body(uint64_t call, size_t bytes);

  void SendRequest(uint64_t call, const Word& word) { Tell(LinesOf(call).request, call, word); }
  void SendReply(uint64_t call, const Word& word) { Tell(LinesOf(call).reply, call, word); }

  // Spin until it is there. DEADLINE_EXCEEDED after `patience`; INVALID_ARGUMENT: it names a body
  // that the slot has no room for, or one without stamps.
  absl::StatusOr<Word> AwaitRequest(uint64_t call, std::chrono::seconds patience) {
    return Await(LinesOf(call).request, call, patience);
  }
  absl::StatusOr<Word> AwaitReply(uint64_t call, std::chrono::seconds patience) {
    return Await(LinesOf(call).reply, call, patience);
  }

 private:
  struct alignas(64) Line {
    std::atomic<uint64_t> call;  // the last one that it tells of
    Word word;
  };
  static_assert(sizeof(Line) == 64);
  struct Lines {
    Line request, reply;
  };

  SharedSlots(FileDescriptor file, uint8_t* memory, const Shape& shape)
      : file_(std::move(file)), memory_(memory), shape_(shape) {}
  static absl::StatusOr<SharedSlots> Map(FileDescriptor file, const Shape& shape);
  static void Tell(Line& line, uint64_t call, const Word& word);
  absl::StatusOr<Word> Await(const Line& line, uint64_t call, std::chrono::seconds patience) const;
  Lines& LinesOf(uint64_t call) { return reinterpret_cast<Lines*>(memory_)[call % shape_.slots]; }

  FileDescriptor file_;
  uint8_t* memory_;  // the lines of all slots, then their bodies, each from a page's start
  const Shape shape_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_SHARED_SLOTS_H_
