// Messages whose every byte is known from their number, so that whoever gets one can check it.

#ifndef FARCALL_TESTS_TRANSPORTS_CONFORMANCE_MESSAGES_H_
#define FARCALL_TESTS_TRANSPORTS_CONFORMANCE_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/message.h"
#include "farcall/tests/rpc/sanitized.h"

namespace farcall::testing {

inline constexpr size_t KiB = size_t{1} << 10;
inline constexpr size_t MiB = size_t{1} << 20;

// Payloads up to this keep their order among each other (rpc/transport.h).
inline constexpr size_t kSmallPayload = 64 * KiB;
// A payload that is on its way for a while over any transport: more than the kernel buffers. A
// sanitizer makes every byte dear.
inline constexpr size_t kHuge = (kSanitized ? 16 : 64) * MiB;

inline constexpr size_t kAbsent = SIZE_MAX;

struct Parts {
  size_t head = 32;
  size_t body = kAbsent;
  size_t attachment = kAbsent;

  size_t payload_bytes() const {
    return (body == kAbsent ? 0 : body) + (attachment == kAbsent ? 0 : attachment);
  }
};

// What a head of at least 32 bytes says about its message.
struct Label {
  static constexpr uint64_t kMagic = 0x0fa7ca11'0fa7ca11;
  uint64_t magic = kMagic;
  uint64_t number = 0;
  uint64_t body = 0;
  uint64_t attachment = 0;
};
static_assert(sizeof(Label) == 32);

// Fills `bytes` with what segment `segment` (0: head, 1: body, 2: attachment) of message `number`
// holds.
void FillSegment(uint64_t number, int segment, std::span<std::byte> bytes);

Message MakeMessage(BufferPool& pool, uint64_t number, Parts parts);

std::optional<Label> ReadLabel(std::span<const std::byte> head);

// Empty when `message` is message `number` with these parts, to the last byte; else what is wrong.
std::string WhatIsWrong(const Message& message, uint64_t number, Parts parts);
// The same for a message that says itself which it is.
std::string WhatIsWrong(const Message& message);

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_TRANSPORTS_CONFORMANCE_MESSAGES_H_
