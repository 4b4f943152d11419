// Speaking the TCP wire by hand: records as strings.

#ifndef FARCALL_TESTS_TRANSPORTS_TCP_WIRE_H_
#define FARCALL_TESTS_TRANSPORTS_TCP_WIRE_H_

#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/message.h"
#include "farcall/transports/tcp/prefix.h"

namespace farcall::tcp::testing {

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Bytes that differ from place to place, and from seed to seed.
inline std::string Pattern(size_t size, unsigned seed = 1) {
  std::string bytes(size, '\0');
  uint32_t state = seed * 2654435761u + 12345;
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

inline std::string Hello() {
  const auto preamble = Preamble();
  return std::string(AsView(preamble));
}

inline std::string Record(const Prefix& prefix) {
  PrefixBytes bytes;
  EncodePrefix(prefix, bytes);
  return std::string(AsView(bytes));
}

inline std::string MessageRecord(std::string_view head, std::string_view body,
                                 std::string_view attachment = {}) {
  return Record({.kind = RecordKind::kMessage,
                 .head = static_cast<uint16_t>(head.size()),
                 .body = body.size(),
                 .attachment = attachment.size()})
      .append(head)
      .append(body)
      .append(attachment);
}

inline std::string BeginRecord(uint32_t transfer, std::string_view head, uint64_t body,
                               uint64_t attachment = 0) {
  return Record({.kind = RecordKind::kBegin,
                 .head = static_cast<uint16_t>(head.size()),
                 .transfer = transfer,
                 .body = body,
                 .attachment = attachment})
      .append(head);
}

inline std::string ChunkRecord(uint32_t transfer, uint64_t offset, std::string_view bytes) {
  return Record({.kind = RecordKind::kChunk,
                 .transfer = transfer,
                 .offset = offset,
                 .length = bytes.size()})
      .append(bytes);
}

inline std::string AbortRecord(uint32_t transfer) {
  return Record({.kind = RecordKind::kAbort, .transfer = transfer});
}

inline std::string AbandonRecord(uint32_t transfer) {
  return Record({.kind = RecordKind::kAbandon, .transfer = transfer});
}

inline Message MakeMessage(BufferPool& pool, std::string_view head, std::string_view body,
                           std::string_view attachment = {}) {
  Message message;
  Buffer spill;
  if (head.size() > Head::kInlineBytes) spill = *pool.Allocate(head.size());
  const std::span<std::byte> to = message.head.Resize(head.size(), std::move(spill));
  if (!head.empty()) std::memcpy(to.data(), head.data(), head.size());
  if (!body.empty()) message.body = *CopyToBuffer(pool, AsBytes(body));
  if (!attachment.empty()) message.attachment = *CopyToBuffer(pool, AsBytes(attachment));
  return message;
}

inline std::string HeadOf(const Message& message) {
  return std::string(AsView(message.head.bytes()));
}

}  // namespace farcall::tcp::testing

#endif  // FARCALL_TESTS_TRANSPORTS_TCP_WIRE_H_
