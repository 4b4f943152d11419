// Cuts what a stream delivers into messages, in place, in one buffer that is reused.
#ifndef FARCALL_BENCH_FLOOR_MESSAGE_READER_H_
#define FARCALL_BENCH_FLOOR_MESSAGE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/bench/floor/message.h"
#include "farcall/bench/floor/stream.h"

namespace farcall::bench {

// Not thread-safe. Messages lie one behind the other in the buffer, as they came.
class MessageReader {
 public:
  // The next message that is there as a whole, or nullopt when Fill must read more. It is valid
  // until the next Fill. INVALID_ARGUMENT for a length that no peer of ours sends.
  absl::StatusOr<std::optional<FloorMessage>> Next();

  // Reads once: up to a whole large message, or as many small ones as are there. OUT_OF_RANGE when
  // the peer has closed the connection between two messages, UNAVAILABLE when within one.
  absl::Status Fill(Stream& stream);

 private:
  void MakeRoom(size_t bytes);

  std::unique_ptr<uint8_t[]> buffer_;
  size_t capacity_ = 0;
  size_t begin_ = 0;  // of what was read and not yet handed out
  size_t end_ = 0;    // of what was read
  size_t next_bytes_ =
      0;  // size of the next message: known from its header, or else the last one's
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_MESSAGE_READER_H_
