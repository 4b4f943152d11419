#include "farcall/tests/fuzz/frames.h"

#include "farcall/rpc/bytes.h"
#include "farcall/rpc/hello.h"
#include "farcall/tests/transports/tcp/wire.h"

namespace farcall::fuzz {
namespace {

enum HeadKind : uint8_t { kNoise, kHello, kFields, kHeadKinds };
enum BodyKind : uint8_t { kNone, kGood, kBytes, kBodyKinds };
constexpr uint8_t kNoStrayFields = 0;

std::string TakeHello(Input& script, BufferPool& pool) {
  Hello hello;
  hello.max_calls_in_flight = script.Byte();
  hello.max_body_bytes = script.Take<uint16_t>();
  hello.max_attachment_bytes = script.Take<uint16_t>();
  const uint8_t versions = script.Byte();  // 0: those that are spoken
  if (versions != 0) {
    hello.min_version = versions % 4;
    hello.max_version = versions / 4 % 4;
  }
  hello.features = script.Byte();
  hello.authentication = script.Short();
  if ((hello.features & kFeatureOffers) != 0) hello.token = script.Short();
  return std::string(AsView(EncodeHello(hello, pool)->bytes()));
}

// One field of any kind, with lengths that are true.
std::string TakeField(Input& script) {
  const uint8_t kind = script.Byte() % 9;
  const std::string_view key = script.Short(), value = script.Short();
  std::byte prefix[kFieldPrefixBytes];
  StoreLittle(prefix, kind);
  StoreLittle(prefix + 1, uint8_t{0});
  StoreLittle(prefix + 2, static_cast<uint16_t>(key.size()));
  StoreLittle(prefix + 4, static_cast<uint32_t>(value.size()));
  return std::string(AsView(prefix)).append(key).append(value);
}

uint64_t MethodAt(uint8_t which) {
  const auto methods = Subject::info().methods;
  return which < methods.size() ? methods[which].id : which;
}

std::string TakeFields(Input& script, std::span<const uint64_t> calls) {
  FrameHeader header;
  const uint8_t type = script.Byte(), flags = script.Byte(), status = script.Byte(),
                call = script.Byte(), method = script.Byte(), stray = script.Byte();
  const auto timeout_ms = script.Take<uint16_t>();
  header.type = static_cast<FrameType>(type % 11);
  header.flags = flags % 3;
  header.status = status % 18;
  header.call = calls.empty() ? call : calls[call % calls.size()];
  // Otherwise a header where every field has its place.
  const bool is_request = header.type == FrameType::kRequest;
  if (is_request || stray != kNoStrayFields) {
    header.method = MethodAt(method);
    header.timeout_ns = uint64_t{timeout_ms} * 1'000'000;
  }
  const bool has_call = header.type != FrameType::kGoAway && header.type != FrameType::kOffers;
  if (!has_call && stray == kNoStrayFields) header.call = 0;
  std::byte bytes[kFrameHeaderBytes];
  EncodeHeader(header, bytes);
  std::string head(AsView(bytes));
  for (size_t fields = script.Byte() % 70; fields > 0 && !script.empty(); --fields) {
    head += TakeField(script);
  }
  return head.substr(0, kMaxHeadBytes);  // no transport takes more
}

Script& PutFields(Script& script, FrameType type, uint8_t flags, uint8_t status, uint8_t call,
                  uint8_t method) {
  script.Byte(kFields).Byte(static_cast<uint8_t>(type)).Byte(flags).Byte(status).Byte(call);
  return script.Byte(method).Byte(kNoStrayFields).Put(uint16_t{1000});
}

Script& PutNoPayload(Script& script) { return script.Byte(kNone).Byte(0); }

}  // namespace

Message TakeMessage(Input& script, const std::shared_ptr<BufferPool>& pool,
                    std::span<const uint64_t> calls) {
  std::string head;
  switch (script.Byte() % kHeadKinds) {
    case kNoise:
      head = script.Short();
      break;
    case kHello:
      head = TakeHello(script, *pool);
      break;
    case kFields:
      head = TakeFields(script, calls);
      break;
  }
  Message message = tcp::testing::MakeMessage(*pool, head, "");
  switch (script.Byte() % kBodyKinds) {
    case kNone:
      break;
    case kGood:
      message.body = MakeBody(pool, script.Short(), script.Byte());
      break;
    case kBytes:
      message.body = TightBuffer(script.Bytes(script.Take<uint16_t>()));
      break;
  }
  const size_t attachment = size_t{script.Byte()} * 16;
  if (attachment > 0) message.attachment = *pool->Allocate(attachment);
  return message;
}

Script& PutHello(Script& script, uint8_t calls_in_flight, uint8_t features,
                 std::string_view token) {
  script.Byte(kHello).Byte(calls_in_flight).Put(uint16_t{60000}).Put(uint16_t{60000});
  script.Byte(0).Byte(features).Short("token");
  if ((features & kFeatureOffers) != 0) script.Short(token);
  return PutNoPayload(script);
}

Script& PutRequest(Script& script, uint8_t call, uint8_t method, std::string_view text) {
  PutFields(script, FrameType::kRequest, 0, 0, call, method);
  script.Byte(1).Byte(static_cast<uint8_t>(FieldKind::kMetadata)).Short("key").Short("value");
  return script.Byte(kGood).Short(text).Byte(call).Byte(call % 2);
}

Script& PutReply(Script& script, uint8_t which, uint8_t status, uint8_t flags) {
  PutFields(script, FrameType::kReply, flags, status, which, 0);
  if (status != 0) {
    script.Byte(1).Byte(static_cast<uint8_t>(FieldKind::kStatusMessage)).Short("").Short("why");
    return PutNoPayload(script);
  }
  return script.Byte(0).Byte(kGood).Short("answer").Byte(0).Byte(which % 2);
}

Script& PutControl(Script& script, FrameType type, uint8_t call, uint8_t status) {
  return PutNoPayload(PutFields(script, type, 0, status, call, 0).Byte(0));
}

Script& PutOffers(Script& script, const std::vector<std::string>& names) {
  PutFields(script, FrameType::kOffers, 0, 0, 0, 0).Byte(names.size());
  for (const std::string& name : names) {
    script.Byte(static_cast<uint8_t>(FieldKind::kOffer)).Short(name).Short("value");
  }
  return PutNoPayload(script);
}

Script& PutProbe(Script& script, uint8_t call, std::string_view body) {
  PutFields(script, FrameType::kProbe, 0, 0, call, 0).Byte(0).Byte(kBytes);
  return script.Put(static_cast<uint16_t>(body.size())).Bytes(body).Byte(0);
}

Script& PutNoise(Script& script, std::string_view head) {
  return PutNoPayload(script.Byte(kNoise).Short(head));
}

}  // namespace farcall::fuzz
