#include "farcall/tests/transports/conformance/messages.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"

namespace farcall::testing {
namespace {

// A prime: no chunk or page size divides it, so that a misplaced chunk shows.
constexpr size_t kPeriod = 65521;
constexpr size_t kStarts = 4096;

const std::array<std::byte, kPeriod + kStarts>& Noise() {
  static const auto& noise = *[] {
    auto* bytes = new std::array<std::byte, kPeriod + kStarts>;
    std::minstd_rand random(7);
    for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random() >> 8);
    return bytes;
  }();
  return noise;
}

// One period of the segment's bytes, over and over.
std::span<const std::byte> Period(uint64_t number, int segment) {
  const size_t start = (number * 3 + static_cast<uint64_t>(segment)) * 127 % kStarts;
  return std::span(Noise()).subspan(start, kPeriod);
}

std::string WrongSegment(const char* name, uint64_t number, int segment,
                         std::span<const std::byte> bytes, size_t size) {
  if (bytes.size() != size) {
    return absl::StrCat(name, " of ", bytes.size(), " bytes instead of ", size);
  }
  const std::span<const std::byte> period = Period(number, segment);
  for (size_t at = 0; at < size; at += kPeriod) {
    const size_t length = std::min(kPeriod, size - at);
    if (std::memcmp(bytes.data() + at, period.data(), length) != 0) {
      return absl::StrCat(name, " differs between bytes ", at, " and ", at + length);
    }
  }
  return "";
}

size_t SizeOf(size_t part) { return part == kAbsent ? 0 : part; }

}  // namespace

void FillSegment(uint64_t number, int segment, std::span<std::byte> bytes) {
  const std::span<const std::byte> period = Period(number, segment);
  for (size_t at = 0; at < bytes.size(); at += kPeriod) {
    std::memcpy(bytes.data() + at, period.data(), std::min(kPeriod, bytes.size() - at));
  }
}

Message MakeMessage(BufferPool& pool, uint64_t number, Parts parts) {
  Message message;
  Buffer spill;
  if (parts.head > Head::kInlineBytes) spill = pool.Allocate(parts.head).value();
  const std::span<std::byte> head = message.head.Resize(parts.head, std::move(spill));
  FillSegment(number, 0, head);
  if (head.size() >= sizeof(Label)) {
    const Label label{
        .number = number, .body = SizeOf(parts.body), .attachment = SizeOf(parts.attachment)};
    std::memcpy(head.data(), &label, sizeof(label));
  }
  if (parts.body != kAbsent) {
    message.body = pool.Allocate(parts.body).value();
    FillSegment(number, 1, message.body.bytes());
  }
  if (parts.attachment != kAbsent) {
    message.attachment = pool.Allocate(parts.attachment).value();
    FillSegment(number, 2, message.attachment.bytes());
  }
  return message;
}

std::optional<Label> ReadLabel(std::span<const std::byte> head) {
  Label label;
  if (head.size() < sizeof(label)) return std::nullopt;
  std::memcpy(&label, head.data(), sizeof(label));
  if (label.magic != Label::kMagic) return std::nullopt;
  return label;
}

std::string WhatIsWrong(const Message& message, uint64_t number, Parts parts) {
  std::span<const std::byte> head = message.head.bytes();
  if (head.size() != parts.head) {
    return absl::StrCat("head of ", head.size(), " bytes instead of ", parts.head);
  }
  if (head.size() >= sizeof(Label)) {
    const std::optional<Label> label = ReadLabel(head);
    if (!label.has_value()) return "a head without its label";
    if (label->number != number) {
      return absl::StrCat("message ", label->number, " instead of ", number);
    }
    // The pattern goes on behind the label, where it would be without one.
    const std::span<const std::byte> behind = head.subspan(sizeof(Label));
    const std::byte* const expected = Period(number, 0).data() + sizeof(Label);
    if (std::memcmp(behind.data(), expected, behind.size()) != 0) {
      return "a head that differs behind its label";
    }
  } else if (std::string wrong = WrongSegment("head", number, 0, head, parts.head);
             !wrong.empty()) {
    return wrong;
  }
  std::string wrong = WrongSegment("body", number, 1, message.body.bytes(), SizeOf(parts.body));
  if (!wrong.empty()) return wrong;
  return WrongSegment("attachment", number, 2, message.attachment.bytes(),
                      SizeOf(parts.attachment));
}

std::string WhatIsWrong(const Message& message) {
  const std::optional<Label> label = ReadLabel(message.head.bytes());
  if (!label.has_value()) return "a head without a label";
  return WhatIsWrong(message, label->number,
                     {.head = message.head.size(),
                      .body = static_cast<size_t>(label->body),
                      .attachment = static_cast<size_t>(label->attachment)});
}

}  // namespace farcall::testing
