// Metadata: key-value pairs that travel beside a message, both ways. Keys and values are any bytes;
// keys are 1 to 255 bytes long and may repeat; all of a message's fields share a head of
// kMaxHeadBytes.

#ifndef FARCALL_RPC_METADATA_H_
#define FARCALL_RPC_METADATA_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "farcall/rpc/frame.h"

namespace farcall {

// What a sender collects. Limits are checked when the message is built, and reported by its call.
class Metadata {
 public:
  Metadata() = default;
  Metadata(std::initializer_list<std::pair<std::string, std::string>> entries)
      : entries_(entries) {}

  void Add(std::string key, std::string value) {
    entries_.emplace_back(std::move(key), std::move(value));
  }
  // The first value of `key`.
  std::optional<std::string_view> Find(std::string_view key) const;

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  void clear() { entries_.clear(); }

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

// What a receiver reads: views into a head that CheckFields accepted, valid as long as its message.
class MetadataView {
 public:
  MetadataView() = default;
  explicit MetadataView(std::span<const std::byte> head) : head_(head) {}

  // The first value of `key`.
  std::optional<std::string_view> Find(std::string_view key) const;
  // Calls visit(key, value) for each entry in order.
  template <class Visitor>
  void ForEach(Visitor&& visit) const {
    if (head_.empty()) return;
    FieldReader fields(head_);
    for (Field field; fields.Next(field);) {
      if (field.kind == FieldKind::kMetadata) visit(field.key, field.value);
    }
  }
  // A copy that outlives the message.
  Metadata ToMetadata() const;

 private:
  std::span<const std::byte> head_;
};

absl::Status AddMetadata(const Metadata& metadata, HeadBuilder& head);
// A head of a header, which is still to be written, and `metadata`. Errors as HeadBuilder::Add.
absl::Status MakeHead(const Metadata& metadata, BufferPool& pool, Head& head);

// A status as fields of a REPLY or GOAWAY and back. What does not fit the head is left out: first
// payloads, then the message's tail; the code always arrives.
void AddStatus(const absl::Status& status, HeadBuilder& head);
absl::Status ReadStatus(const FrameHeader& header, std::span<const std::byte> head);

}  // namespace farcall

#endif  // FARCALL_RPC_METADATA_H_
