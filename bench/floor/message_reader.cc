#include "farcall/bench/floor/message_reader.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace farcall::bench {
namespace {

// One read takes this much of small messages at once. More gains nothing: a window of 64 small
// messages is 2.5 KiB.
constexpr size_t kReadAheadBytes = 64 * 1024;

}  // namespace

absl::StatusOr<std::optional<FloorMessage>> MessageReader::Next() {
  const size_t available = end_ - begin_;
  if (available < sizeof(FloorHeader)) return std::nullopt;
  const FloorHeader header = FloorMessage(std::span(buffer_.get() + begin_, available)).header();
  if (header.body_bytes < kMinFloorBodyBytes || header.body_bytes > kMaxFloorBodyBytes ||
      header.reply_bytes < kMinFloorBodyBytes || header.reply_bytes > kMaxFloorBodyBytes) {
    return absl::InvalidArgumentError("floor message with impossible lengths " +
                                      std::to_string(header.body_bytes) + ", " +
                                      std::to_string(header.reply_bytes));
  }
  next_bytes_ = FloorMessage::SizeFor(header.body_bytes);
  if (available < next_bytes_) return std::nullopt;
  const FloorMessage message(std::span(buffer_.get() + begin_, next_bytes_));
  begin_ += next_bytes_;
  return message;
}

absl::Status MessageReader::Fill(Stream& stream) {
  const size_t held = end_ - begin_;
  // Of a large message exactly what it still lacks, so that it is never moved; behind the last
  // large one, its like is expected.
  const bool large = next_bytes_ >= kReadAheadBytes;
  const size_t wanted = (large ? next_bytes_ : kReadAheadBytes) - held;
  MakeRoom(wanted);
  const absl::StatusOr<size_t> bytes = stream.Read(std::span(buffer_.get() + end_, wanted));
  if (!bytes.ok()) return bytes.status();
  if (*bytes == 0) {
    return held == 0 ? absl::OutOfRangeError("the peer closed the floor connection")
                     : absl::UnavailableError("the peer closed the floor connection in a message");
  }
  end_ += *bytes;
  return absl::OkStatus();
}

// Makes room for `bytes` behind what is held; moves or copies that only where they do not fit.
void MessageReader::MakeRoom(size_t bytes) {
  const size_t held = end_ - begin_;
  if (held == 0) begin_ = end_ = 0;
  if (capacity_ - end_ >= bytes) return;
  if (capacity_ >= held + bytes) {
    memmove(buffer_.get(), buffer_.get() + begin_, held);
  } else {
    const size_t capacity = std::max(held + bytes, 2 * kReadAheadBytes);
    // Not value-initialised: the kernel writes it before anybody reads it.
    std::unique_ptr<uint8_t[]> larger(new uint8_t[capacity]);
    if (held > 0) memcpy(larger.get(), buffer_.get() + begin_, held);
    buffer_ = std::move(larger);
    capacity_ = capacity;
  }
  begin_ = 0;
  end_ = held;
}

}  // namespace farcall::bench
