#include "farcall/rpc/metadata.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "farcall/rpc/bytes.h"

namespace farcall {

std::optional<std::string_view> Metadata::Find(std::string_view key) const {
  for (const auto& [name, value] : entries_) {
    if (name == key) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> MetadataView::Find(std::string_view key) const {
  std::optional<std::string_view> found;
  ForEach([&](std::string_view name, std::string_view value) {
    if (!found && name == key) found = value;
  });
  return found;
}

Metadata MetadataView::ToMetadata() const {
  Metadata copy;
  ForEach([&](std::string_view key, std::string_view value) {
    copy.Add(std::string(key), std::string(value));
  });
  return copy;
}

absl::Status AddMetadata(const Metadata& metadata, HeadBuilder& head) {
  for (const auto& [key, value] : metadata) {
    if (absl::Status added = head.Add({FieldKind::kMetadata, key, value}); !added.ok()) {
      return added;
    }
  }
  return absl::OkStatus();
}

absl::Status MakeHead(const Metadata& metadata, BufferPool& pool, Head& head) {
  if (metadata.empty()) {  // mostly
    head.Resize(kFrameHeaderBytes);
    return absl::OkStatus();
  }
  HeadBuilder builder(pool);
  absl::Status added = AddMetadata(metadata, builder);
  if (added.ok()) head = builder.Finish({});
  return added;
}

void AddStatus(const absl::Status& status, HeadBuilder& head) {
  const size_t room = kMaxHeadBytes - std::min(kMaxHeadBytes, head.size() + kFieldPrefixBytes);
  const std::string_view message = Std(status.message()).substr(0, room);
  // A field that is refused (a dry pool, a full head) is left out: the code alone must always
  // arrive.
  if (!message.empty()) head.Add({FieldKind::kStatusMessage, {}, message}).IgnoreError();
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    head.Add({FieldKind::kStatusPayload, Std(url), std::string(payload)}).IgnoreError();
  });
}

absl::Status ReadStatus(const FrameHeader& header, std::span<const std::byte> head) {
  if (header.status == 0) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(header.status);
  absl::Status status(code, "");
  FieldReader fields(head);
  for (Field field; fields.Next(field);) {
    if (field.kind == FieldKind::kStatusMessage) status = absl::Status(code, Absl(field.value));
  }
  FieldReader again(head);
  for (Field field; again.Next(field);) {
    if (field.kind == FieldKind::kStatusPayload) {
      status.SetPayload(Absl(field.key), absl::Cord(Absl(field.value)));
    }
  }
  return status;
}

}  // namespace farcall
