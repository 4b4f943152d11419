#include "farcall/bench/floor/server.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "farcall/bench/floor/message.h"
#include "farcall/bench/floor/message_reader.h"

namespace farcall::bench {
namespace {

// Answers of other sizes than their requests are collected up to this size for one write.
constexpr size_t kMaxBuiltBytes = 64 * 1024;

// Answers collected for one write. Those that repeat their requests go out from where these were
// read; others from slots of one size that keep all but their stamps from one use to the next. At
// any time there are pending ones of one kind only, so that answers leave in order.
class Answers {
 public:
  explicit Answers(Stream& stream) : stream_(stream) {}

  absl::Status Add(FloorMessage request) {
    const FloorHeader header = request.header();
    return header.reply_bytes == header.body_bytes ? Repeat(request.bytes())
                                                   : Build(request, header.reply_bytes);
  }

  // Must come before the memory of added requests is used again.
  absl::Status Flush() {
    const std::span<const uint8_t> answers =
        repeated_.empty() ? std::span(slots_).first(used_ * slot_bytes_) : repeated_;
    repeated_ = {};
    used_ = 0;
    return stream_.Write(answers);
  }

 private:
  absl::Status Repeat(std::span<uint8_t> request) {
    if (repeated_.empty()) {  // else it is the neighbour of the last one
      absl::Status sent = Flush();
      if (!sent.ok()) return sent;
      repeated_ = request.first(0);
    }
    repeated_ = {repeated_.data(), repeated_.size() + request.size()};
    return absl::OkStatus();
  }

  absl::Status Build(FloorMessage request, uint32_t reply_bytes) {
    const size_t bytes = FloorMessage::SizeFor(reply_bytes);
    if (bytes != slot_bytes_ || !repeated_.empty() || used_ * bytes == slots_.size()) {
      absl::Status sent = Flush();
      if (!sent.ok()) return sent;
    }
    if (bytes != slot_bytes_) MakeSlots(reply_bytes);
    SetStamps(FloorMessage(std::span(slots_).subspan(used_++ * bytes, bytes)).body(),
              StampsOf(request.body()));
    return absl::OkStatus();
  }

  void MakeSlots(uint32_t reply_bytes) {
    slot_bytes_ = FloorMessage::SizeFor(reply_bytes);
    slots_.resize(slot_bytes_ * std::max<size_t>(1, kMaxBuiltBytes / slot_bytes_));
    for (size_t at = 0; at < slots_.size(); at += slot_bytes_) {
      FloorMessage slot{std::span(slots_).subspan(at, slot_bytes_)};
      slot.set_header({.body_bytes = reply_bytes, .reply_bytes = reply_bytes});
      FillPattern(slot.body());
    }
  }

  Stream& stream_;
  std::span<uint8_t> repeated_;  // neighbours in the reader's buffer
  std::vector<uint8_t> slots_;
  size_t slot_bytes_ = 0;
  size_t used_ = 0;  // slots that wait to be sent
};

}  // namespace

absl::Status ServeFloor(Stream& stream) {
  MessageReader reader;
  Answers answers(stream);
  while (true) {
    absl::StatusOr<std::optional<FloorMessage>> request = reader.Next();
    if (!request.ok()) return request.status();
    if (*request) {
      absl::Status added = answers.Add(**request);
      if (!added.ok()) return added;
      continue;
    }
    absl::Status status = answers.Flush();
    if (status.ok()) status = reader.Fill(stream);
    if (absl::IsOutOfRange(status)) return absl::OkStatus();
    if (!status.ok()) return status;
  }
}

}  // namespace farcall::bench
