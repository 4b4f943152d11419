#include "farcall/tests/hostile/wire_writer.h"

#include <algorithm>

namespace farcall::hostile {

std::string Preamble(uint8_t version) { return WireWriter().Text("FARCALL").U8(version).Take(); }

std::string Bytes(const RecordPrefix& prefix) {
  return WireWriter()
      .U8(prefix.kind)
      .U8(prefix.flags)
      .U16(prefix.head)
      .U32(prefix.transfer)
      .U64(prefix.first)
      .U64(prefix.second)
      .Take();
}

std::string Message(std::string_view head, std::string_view body, std::string_view attachment) {
  return Bytes(RecordPrefix{.head = static_cast<uint16_t>(head.size()),
                            .first = body.size(),
                            .second = attachment.size()})
      .append(head)
      .append(body)
      .append(attachment);
}

std::string Begin(uint32_t transfer, std::string_view head, uint64_t body, uint64_t attachment) {
  return Bytes(RecordPrefix{.kind = kBegin,
                            .head = static_cast<uint16_t>(head.size()),
                            .transfer = transfer,
                            .first = body,
                            .second = attachment})
      .append(head);
}

std::string Chunk(uint32_t transfer, uint64_t offset, std::string_view bytes) {
  return Bytes(RecordPrefix{
                   .kind = kChunk, .transfer = transfer, .first = offset, .second = bytes.size()})
      .append(bytes);
}

std::string Abort(uint32_t transfer) {
  return Bytes(RecordPrefix{.kind = kAbort, .transfer = transfer});
}

std::string Abandon(uint32_t transfer) {
  return Bytes(RecordPrefix{.kind = kAbandon, .transfer = transfer});
}

std::string Transfer(uint32_t transfer, std::string_view head, std::string_view body,
                     std::string_view attachment) {
  std::string bytes = Begin(transfer, head, body.size(), attachment.size());
  const std::string payload = std::string(body).append(attachment);
  for (size_t at = 0; at < payload.size(); at += kMaxChunk) {
    bytes += Chunk(transfer, at, std::string_view(payload).substr(at, kMaxChunk));
  }
  return bytes;
}

std::string Bytes(const Header& header) {
  return WireWriter()
      .U8(header.type)
      .U8(header.flags)
      .U16(header.status)
      .U32(header.sequence)
      .U64(header.call)
      .U64(header.method)
      .U64(header.timeout)
      .Take();
}

std::string Bytes(const FieldWords& field) {
  return WireWriter()
      .U8(field.kind)
      .U8(field.reserved)
      .U16(field.key_length.value_or(static_cast<uint16_t>(field.key.size())))
      .U32(field.value_length.value_or(static_cast<uint32_t>(field.value.size())))
      .Text(field.key)
      .Text(field.value)
      .Take();
}

std::string Bytes(const LimitsWords& limits) {
  return WireWriter()
      .U64(limits.body)
      .U64(limits.attachment)
      .U32(limits.calls)
      .U32(limits.reserved)
      .U64(limits.features)
      .Take();
}

std::string Head(const Header& header, const std::vector<FieldWords>& fields) {
  std::string bytes = Bytes(header);
  for (const FieldWords& field : fields) bytes += Bytes(field);
  return bytes;
}

Header HelloHeader(uint16_t lowest, uint16_t highest) {
  return {.type = kHello,
          .sequence = lowest | (static_cast<uint32_t>(highest) << 16),
          .method = kMagic};
}

std::string Hello(const LimitsWords& limits, const std::vector<FieldWords>& more) {
  std::vector<FieldWords> fields = {{.kind = kLimits, .key = {}, .value = Bytes(limits)}};
  fields.insert(fields.end(), more.begin(), more.end());
  return Message(Head(HelloHeader(), fields));
}

std::string Greeting() { return Preamble() + Hello(); }

}  // namespace farcall::hostile
