#include "farcall/tests/hostile/client_cases.h"

#include "absl/strings/str_cat.h"
#include "farcall/tests/hostile/ground.h"

namespace farcall::hostile {
namespace {

constexpr uint64_t kTwo31 = uint64_t{1} << 31, kMax32 = ~uint32_t{0}, kTwo63 = uint64_t{1} << 63,
                   kMax64 = ~uint64_t{0};
constexpr auto kOk = absl::StatusCode::kOk;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

std::string ReplyHead(uint64_t call, const std::vector<FieldWords>& fields = {},
                      uint16_t status = 0, uint8_t flags = 0) {
  return Head({.type = kReply, .flags = flags, .status = status, .call = call}, fields);
}

std::string Reply(uint64_t call, const std::vector<FieldWords>& fields = {}, uint16_t status = 0,
                  uint8_t flags = 0) {
  return Message(ReplyHead(call, fields, status, flags), status == 0 ? AnswerBody("good") : "");
}

// A fault that costs the connection and names `rule`.
ClientCase Lost(std::string name, std::function<std::string(uint64_t)> bytes, std::string rule) {
  return {std::move(name), std::move(bytes),  Connection::kLost,
          kUnavailable,    Outcome::kUnknown, std::move(rule)};
}

// The same, of bytes that do not depend on the call.
ClientCase LostBy(std::string name, std::string bytes, std::string rule) {
  return Lost(
      std::move(name), [bytes = std::move(bytes)](uint64_t) { return bytes; }, std::move(rule));
}

// The call is answered well all the same.
ClientCase Fine(std::string name, std::function<std::string(uint64_t)> bytes) {
  return {std::move(name), std::move(bytes), Connection::kKept, kOk, Outcome::kAnswered};
}

}  // namespace

std::string GoodReply(uint64_t call) { return Reply(call); }

std::vector<ClientCase> BrokenWireCases() {
  const auto begun = [](const std::string& then) {
    return [then](uint64_t call) { return Begin(1, ReplyHead(call), 600'000) + then; };
  };
  const auto chunk = [](uint64_t offset, uint64_t length, uint32_t transfer = 1) {
    return Bytes({.kind = kChunk, .transfer = transfer, .first = offset, .second = length});
  };
  std::vector<ClientCase> cases = {
      LostBy("record flags", Bytes(RecordPrefix{.flags = 1}), "flags of a record"),
      LostBy("body + attachment = 2^64", Bytes(RecordPrefix{.first = kTwo63, .second = kTwo63}),
             "fit 64 bits"),
      LostBy("a small BEGIN", Begin(1, "", kMaxInline), "payload of a BEGIN is more than"),
      LostBy("transfer 0", Begin(0, "", 70'000), "is at least 1"),
      LostBy("CHUNK of a message never announced", chunk(0, 1), "under way, not 1"),
      LostBy("ABORT of nothing", Abort(1), "ABORT ends a transfer"),
      LostBy("ABANDON of nothing", Abandon(1), "ABANDON names a transfer"),
      Lost("CHUNK out of order", begun(chunk(1, 1)), "offset 0 of transfer 1 is next"),
      Lost("CHUNK overlapping", begun(Chunk(1, 0, "0123456789") + chunk(9, 1)), "offset 10"),
      Lost(
          "CHUNK beyond the end",
          [&](uint64_t call) { return Begin(1, ReplyHead(call), 70'000) + chunk(0, 70'001); },
          "a CHUNK ends with its payload")};
  for (const uint64_t length : {uint64_t{0}, kMaxChunk + 1, kTwo31, kMax32, kTwo63, kMax64}) {
    cases.push_back(Lost(absl::StrCat("CHUNK length = ", length), begun(chunk(0, length)),
                         "the length of a CHUNK"));
  }
  for (const uint16_t head : std::initializer_list<uint16_t>{4097, 32768, 65535}) {
    cases.push_back(LostBy(absl::StrCat("head = ", head), Bytes(RecordPrefix{.head = head}),
                           "a head is at most 4096"));
  }
  for (const uint64_t bytes : {kMaxInline + 1, kTwo31, kMax32, kTwo63, kMax64}) {
    cases.push_back(LostBy(absl::StrCat("body = ", bytes), Bytes(RecordPrefix{.first = bytes}),
                           "payload of a MESSAGE"));
  }
  for (const uint8_t kind : std::initializer_list<uint8_t>{0, 6, 255}) {
    cases.push_back(LostBy(absl::StrCat("record kind ", kind), Bytes(RecordPrefix{.kind = kind}),
                           "the kind of a record"));
  }
  for (const uint64_t bytes : {kClientBody + 1, kTwo31, kMax32, kTwo63, kMax64}) {
    cases.push_back({absl::StrCat("BEGIN body = ", bytes),
                     [bytes](uint64_t call) { return Begin(1, ReplyHead(call), bytes); },
                     Connection::kKept, absl::StatusCode::kResourceExhausted, Outcome::kAnswered,
                     "limits.max_body_bytes"});
  }
  return cases;
}

std::vector<ClientCase> BrokenFrameCases() {
  const auto framed = [](const Header& header, const std::string& body = {}) {
    return Message(Bytes(header), body);
  };
  const auto with = [](const FieldWords& field) {
    return [field](uint64_t call) { return Reply(call, {field}); };
  };
  std::vector<ClientCase> cases = {
      LostBy("an empty head", Message(""), "a head of 0 bytes"),
      LostBy("a second HELLO", Hello(), "a second HELLO"),
      LostBy("a REQUEST from the server", framed({.type = kRequest, .call = 1, .timeout = 1}),
             "a REQUEST from the side that serves"),
      LostBy("a CANCEL from the server", framed({.type = kCancel, .call = 1}),
             "a CANCEL from the side that serves"),
      LostBy("a PING with a body", framed({.type = kPing}, "x"), "a payload on a control frame"),
      {"GOAWAY with a status",
       [](uint64_t) { return Message(Bytes(Header{.type = kGoAway, .status = 7})); },
       Connection::kLost, absl::StatusCode::kPermissionDenied, Outcome::kUnknown,
       "ended the connection"},
      Lost(
          "reply flags", [](uint64_t call) { return Reply(call, {}, 5, 2); }, "unknown flags 2"),
      Lost(
          "NOT_RUN on OK", [](uint64_t call) { return Reply(call, {}, 0, kNotRun); }, "NOT_RUN"),
      Lost(
          "status 17", [](uint64_t call) { return Reply(call, {}, 17); }, "status code 17"),
      Lost(
          "status 65535", [](uint64_t call) { return Reply(call, {}, 65535); }, "code 65535"),
      Lost(
          "a body beside an error",
          [](uint64_t call) { return Message(ReplyHead(call, {}, 5), "x"); },
          "a payload on a REPLY with an error"),
      Lost(
          "a reply announced twice",
          [](uint64_t call) {
            return Begin(1, ReplyHead(call), 70'000) + Begin(2, ReplyHead(call), 70'000);
          },
          "a second REPLY to one call"),
      Lost(
          "a reply whole and announced",
          [](uint64_t call) { return Begin(1, ReplyHead(call), 70'000) + Reply(call); },
          "a second REPLY to one call"),
      Lost("metadata without a key", with({.value = "v"}), "a metadata key is empty"),
      Lost("metadata key of 256", with({.key = std::string(256, 'k')}), "key has 256 bytes"),
      Lost("a value past the head", with({.key = "k", .value_length = ~uint32_t{0}}), "a field of"),
      Lost("a key past the head", with({.key = "k", .key_length = uint16_t{65535}}), "a field of"),
      Lost(
          "two status messages",
          [](uint64_t call) {
            return Reply(call, {{.kind = kStatusMessage}, {.kind = kStatusMessage}}, 5);
          },
          "second field of kind 2"),
      Lost(
          "too many metadata entries",
          [](uint64_t call) { return Reply(call, std::vector<FieldWords>(65, {.key = "k"})); },
          "more than 64 fields"),
      Lost("a limits field", with({.kind = kLimits}), "kind 4")};
  for (const uint8_t type : std::initializer_list<uint8_t>{0, 10, 255}) {
    cases.push_back(
        LostBy(absl::StrCat("frame type ", type), framed({.type = type}), "unknown frame type"));
  }
  return cases;
}

std::vector<ClientCase> BadReplyCases() {
  const auto body = [](const std::string& bytes) {
    return [bytes](uint64_t call) { return Message(ReplyHead(call), bytes); };
  };
  const auto unreadable = [&](std::string name, const std::string& bytes) {
    return ClientCase{std::move(name),    body(bytes),
                      Connection::kKept,  absl::StatusCode::kInternal,
                      Outcome::kAnswered, "cannot be read"};
  };
  std::string garbage = AnswerBody("text", 100);
  garbage.replace(0, 4, "\xff\xff\xff\x7f");
  std::vector<ClientCase> cases = {
      unreadable("no body", ""),
      unreadable("a body of one byte", "x"),
      unreadable("a body of zeros", std::string(64, '\0')),
      unreadable("a body of 0xff", std::string(64, '\xff')),
      unreadable("a root beyond the body", garbage),
      Fine("replies that nobody asked for",
           [](uint64_t call) {
             std::string replies;
             for (const uint64_t id : {uint64_t{0}, uint64_t{1}, call + 1, call ^ (kTwo31 << 1),
                                       kMax64, call + (uint64_t{1} << 32)}) {
               replies += Reply(id) + Reply(id, {}, 13, kNotRun);
             }
             return replies + Reply(call);
           }),
      Fine("a large reply that nobody asked for",
           [](uint64_t call) { return Begin(1, ReplyHead(call + 1), kMax64) + Reply(call); }),
      Fine("the reply twice", [](uint64_t call) { return Reply(call) + Reply(call); }),
      Fine("a flood of replies that nobody asked for",
           [](uint64_t call) {
             std::string replies;
             for (int i = 0; i < 5000; ++i) replies += Reply(call + 1);
             return replies + Reply(call);
           }),
      Fine("PONGs that nobody asked for",
           [](uint64_t call) {
             return Message(Bytes(Header{.type = kPong, .call = 9})) + Reply(call);
           }),
      Fine("metadata with NUL, CR LF and bytes above 0x7f",
           [](uint64_t call) {
             return Reply(call, {{.key = std::string("\0\r\n\xff", 4), .value = "\r\n\x80"}});
           }),
      Fine("a body at the limit",
           [](uint64_t call) {
             std::string most = AnswerBody("good");
             most.resize(kClientBody);
             return Transfer(1, ReplyHead(call), most);
           }),
      {"a status with an outcome of its own",
       [](uint64_t call) {
         return Reply(call, {{.kind = kStatusPayload, .key = kOutcomePayload, .value = "0"}}, 5);
       },
       Connection::kKept, absl::StatusCode::kNotFound, Outcome::kAnswered},
      {"a status of any bytes",
       [](uint64_t call) {
         return Reply(call, {{.kind = kStatusMessage, .value = std::string("\r\n\0\xff", 4)}}, 5);
       },
       Connection::kKept, absl::StatusCode::kNotFound, Outcome::kAnswered, "\r\n"},
      {"NOT_RUN", [](uint64_t call) { return Reply(call, {}, 8, kNotRun); }, Connection::kKept,
       absl::StatusCode::kResourceExhausted, Outcome::kNotRun},
      {"a reply given up half way",
       [](uint64_t call) {
         return Begin(1, ReplyHead(call), 70'000) + Chunk(1, 0, "x") + Abort(1);
       },
       Connection::kKept, absl::StatusCode::kUnavailable, Outcome::kUnknown,
       "gave the message up"}};
  return cases;
}

}  // namespace farcall::hostile
