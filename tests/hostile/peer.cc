#include "farcall/tests/hostile/peer.h"

#include <sys/socket.h>

#include <stdexcept>

namespace farcall::hostile {
namespace {

uint64_t Number(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes.at(at + i))) << (8 * i);
  }
  return value;
}

void Expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

void ReadHead(std::string_view head, Heard& heard) {
  Expect(head.size() >= kHeaderBytes, "heard a head that is shorter than its header");
  heard.header = {.type = static_cast<uint8_t>(head[0]),
                  .flags = static_cast<uint8_t>(head[1]),
                  .status = static_cast<uint16_t>(Number(head, 2, 2)),
                  .sequence = static_cast<uint32_t>(Number(head, 4, 4)),
                  .call = Number(head, 8, 8),
                  .method = Number(head, 16, 8),
                  .timeout = Number(head, 24, 8)};
  head.remove_prefix(kHeaderBytes);
  while (!head.empty()) {
    const auto kind = static_cast<uint8_t>(head[0]);
    const size_t key_bytes = Number(head, 2, 2);
    const size_t value_bytes = Number(head, 4, 4);
    head.remove_prefix(kFieldPrefixBytes);
    Expect(head.size() >= key_bytes + value_bytes, "heard a field that is cut short");
    const std::string key(head.substr(0, key_bytes));
    const std::string value(head.substr(key_bytes, value_bytes));
    head.remove_prefix(key_bytes + value_bytes);
    if (kind == kStatusMessage) heard.reason = value;
    if (kind == kMetadata) heard.metadata[key] = value;
  }
}

}  // namespace

bool Peer::HearPreamble() {
  const std::string preamble = socket_.Read(kPreambleBytes);
  if (preamble.size() < kPreambleBytes) return false;
  Expect(preamble == Preamble(), "heard another preamble");
  greeted_ = true;
  return true;
}

// One transfer at a time: no test here makes the other side send two at once.
std::optional<Heard> Peer::Hear() {
  if (!greeted_ && !HearPreamble()) return std::nullopt;
  std::optional<Heard> heard;
  std::string payload;
  size_t body_bytes = 0, total = 0;
  while (true) {
    const std::string prefix = socket_.Read(kRecordPrefixBytes);
    if (prefix.size() < kRecordPrefixBytes) return std::nullopt;
    const auto kind = static_cast<uint8_t>(prefix[0]);
    const uint64_t first = Number(prefix, 8, 8), second = Number(prefix, 16, 8);
    if (kind == kAbandon) {
      ++abandons_;
      continue;
    }
    if (kind == kChunk) {
      Expect(heard && first == payload.size(), "heard a chunk out of order");
      payload += socket_.Read(second);
    } else {
      Expect(kind == kMessage || kind == kBegin, "heard an unknown record");
      heard.emplace();
      ReadHead(socket_.Read(Number(prefix, 2, 2)), *heard);
      body_bytes = first;
      total = first + second;
      if (kind == kMessage) payload = socket_.Read(total);
    }
    if (payload.size() < total) continue;
    heard->body = payload.substr(0, body_bytes);
    heard->attachment = payload.substr(body_bytes);
    return heard;
  }
}

std::optional<Heard> Peer::Hear(uint8_t type) {
  std::optional<Heard> heard = Hear();
  while (heard && heard->header.type != type) heard = Hear();
  return heard;
}

void Peer::TakeLittle() {
  const int bytes = 4096;
  ::setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

}  // namespace farcall::hostile
