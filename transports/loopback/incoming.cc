#include "farcall/transports/loopback/incoming.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farcall::loopback {
namespace {

bool IsAligned(const Buffer& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment == 0;
}

// Gives `target` room for a copy of `source` when that cannot be handed over as it is.
absl::Status AlignIfNeeded(const Buffer& source, Buffer& target, BufferPool& pool) {
  if (target || source.empty() || IsAligned(source)) return absl::OkStatus();
  absl::StatusOr<Buffer> memory = pool.Allocate(source.size());
  if (!memory.ok()) return memory.status();
  target = *std::move(memory);
  return absl::OkStatus();
}

// Copies the part of `source` that lies in [begin, end) to the same place in `target`, if there is
// a target. Returns how many bytes.
size_t CopyPart(const Buffer& source, Buffer& target, size_t begin, size_t end) {
  end = std::min(end, source.size());
  if (!target || begin >= end) return 0;
  std::memcpy(target.data() + begin, source.data() + begin, end - begin);
  return end - begin;
}

}  // namespace

absl::Status Incoming::Aim(Buffer attachment, BufferPool& pool) {
  const size_t size = message_.attachment.size();
  if (attachment) {
    if (attachment.slot()->capacity < size) {
      return absl::ResourceExhaustedError(
          absl::StrCat("loopback: the buffer that Admit gave for the attachment holds ",
                       attachment.slot()->capacity, " bytes of ", size));
    }
    attachment_target_ = std::move(attachment);
    attachment_target_.SetView(0, size);
  }
  absl::Status status = AlignIfNeeded(message_.body, body_target_, pool);
  if (status.ok()) status = AlignIfNeeded(message_.attachment, attachment_target_, pool);
  return status;
}

size_t Incoming::Move(size_t bytes) {
  const size_t body = message_.body.size();
  const size_t begin = moved_;
  const size_t end = begin + std::min(bytes, message_.payload_bytes() - begin);
  moved_ = end;
  size_t copied = CopyPart(message_.body, body_target_, begin, end);
  if (end > body) {
    copied +=
        CopyPart(message_.attachment, attachment_target_, std::max(begin, body) - body, end - body);
  }
  return copied;
}

Message Incoming::Take() {
  if (body_target_) message_.body = std::move(body_target_);
  if (attachment_target_) message_.attachment = std::move(attachment_target_);
  return std::move(message_);
}

}  // namespace farcall::loopback
