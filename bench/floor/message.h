// What travels between the floor's client and server: messages with a length in front, nothing
// else.
#ifndef FARCALL_BENCH_FLOOR_MESSAGE_H_
#define FARCALL_BENCH_FLOOR_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace farcall::bench {

// In front of each body; both machines are the same one, so byte order is its own.
struct FloorHeader {
  uint32_t body_bytes;
  uint32_t reply_bytes;  // of the reply's body; in a reply, that body's own length once more
};
static_assert(sizeof(FloorHeader) == 8);

// A body begins and ends with a stamp of the client's, which the reply repeats. A reply as long as
// its request is the request itself; any other has FillPattern's bytes between its stamps.
using FloorStamp = uint64_t;
inline constexpr size_t kMinFloorBodyBytes = 2 * sizeof(FloorStamp);

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

  FloorStamp first_stamp() const { return LoadStamp(body().data()); }
  FloorStamp last_stamp() const {
    return LoadStamp(bytes_.data() + bytes_.size() - sizeof(FloorStamp));
  }
  void set_stamps(FloorStamp first, FloorStamp last) {
    memcpy(body().data(), &first, sizeof(first));
    memcpy(bytes_.data() + bytes_.size() - sizeof(last), &last, sizeof(last));
  }

 private:
  static FloorStamp LoadStamp(const uint8_t* bytes) {
    FloorStamp stamp;
    memcpy(&stamp, bytes, sizeof(stamp));
    return stamp;
  }

  std::span<uint8_t> bytes_;
};

inline uint8_t PatternAt(size_t offset) {
  return static_cast<uint8_t>(offset * 167 + (offset >> 8));
}

inline void FillPattern(std::span<uint8_t> body) {
  for (size_t i = 0; i < body.size(); ++i) body[i] = PatternAt(i);
}

// Whether all but the two stamps is FillPattern's.
inline bool HoldsPattern(std::span<const uint8_t> body) {
  for (size_t i = sizeof(FloorStamp); i + sizeof(FloorStamp) < body.size(); ++i) {
    if (body[i] != PatternAt(i)) return false;
  }
  return true;
}

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_FLOOR_MESSAGE_H_
