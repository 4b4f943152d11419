// What travels between the floor's client and server: messages with a length in front, nothing
// else.
#ifndef FARCALL_BENCH_FLOOR_MESSAGE_H_
#define FARCALL_BENCH_FLOOR_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "farcall/bench/measure/payload.h"

namespace farcall::bench {

// In front of each body; both machines are the same one, so byte order is its own.
struct FloorHeader {
  uint32_t body_bytes;
  uint32_t reply_bytes;  // of the reply's body; in a reply, that body's own length once more
};
static_assert(sizeof(FloorHeader) == 8);

// A body begins and ends with a stamp of the client's (measure/payload.h), which the reply repeats.
// A reply as long as its request is the request itself; any other has FillPattern's bytes between
// its stamps.
inline constexpr size_t kMinFloorBodyBytes = kMinPayloadBytes;

// Four times the largest measured body; a longer one is a broken peer.
inline constexpr size_t kMaxFloorBodyBytes = size_t{64} << 20;

// A whole message in a buffer.
class FloorMessage {
 public:
  explicit FloorMessage(std::span<uint8_t> bytes) : bytes_(bytes) {}

  static size_t SizeFor(size_t body_bytes) { return sizeof(FloorHeader) + body_bytes; }

  std::span<uint8_t> bytes() const { return bytes_; }
  std::span<uint8_t> body() const { return bytes_.subspan(sizeof(FloorHeader)); }

  FloorHeader header() const {
    FloorHeader header;
    memcpy(&header, bytes_.data(), sizeof(header));
    return header;
  }
  void set_header(const FloorHeader& header) { memcpy(bytes_.data(), &header, sizeof(header)); }

 private:
  std::span<uint8_t> bytes_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_MESSAGE_H_
