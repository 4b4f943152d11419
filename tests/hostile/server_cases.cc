#include "farcall/tests/hostile/server_cases.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/tests/hostile/ground.h"

namespace farcall::hostile {
namespace {

constexpr uint64_t kTwo31 = uint64_t{1} << 31, kMax32 = ~uint32_t{0}, kTwo63 = uint64_t{1} << 63,
                   kMax64 = ~uint64_t{0};
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// A well-formed request of exactly `bytes`: what follows a FlatBuffer is not looked at.
std::string Padded(size_t bytes) {
  std::string body = AskBody();
  body.resize(bytes);
  return body;
}

std::string Sized(std::string name, uint64_t value) { return absl::StrCat(name, " = ", value); }

// A request whose head has exactly `bytes`.
std::string FullHead(size_t bytes) {
  const size_t value = bytes - kHeaderBytes - kFieldPrefixBytes - 1;
  return Head(Ask(), {{.key = "k", .value = std::string(value, 'v')}});
}

const std::string& Hi() {
  static const auto* hi = new std::string(Greeting());
  return *hi;
}

}  // namespace

ServerOptions CaseOptions() {
  return {.limits = {.max_body_bytes = kServerBody,
                     .max_attachment_bytes = kServerAttachment,
                     .max_calls_in_flight = kServerCalls}};
}

Header Ask(uint64_t id, uint64_t timeout) {
  return {.type = kRequest,
          .call = id,
          .method = testing::Probe::DoMethod::info().id,
          .timeout = timeout};
}

std::string AskMessage(uint64_t id) { return Message(Head(Ask(id)), AskBody()); }

std::vector<Case> RecordCases() {
  const std::string& hi = Hi();
  const std::string head = Head(Ask());
  std::vector<Case> cases = {
      {"not Farcall", "GET / HTTP/1.1\r\n\r\n", Expect::kCut, "it speaks HTTP"},
      {"preamble with a bad last letter", "FARCALl\x01", Expect::kCut, "does not speak Farcall"},
      {"wire version 0", Preamble(0), Expect::kCut, "version 0"},
      {"wire version 2", Preamble(2), Expect::kCut, "version 2"},
      {"wire version 255", Preamble(255), Expect::kCut, "version 255"},
      {"record flags", hi + Bytes(RecordPrefix{.flags = 1}), Expect::kCut, "flags of a record"},
      {"ABORT with a head", hi + Bytes(RecordPrefix{.kind = kAbort, .head = 1, .transfer = 1}),
       Expect::kCut, "without a head"},
      {"ABANDON with a size", hi + Bytes({.kind = kAbandon, .transfer = 1, .second = 1}),
       Expect::kCut, "sizes of an ABORT or ABANDON"},
      {"MESSAGE with a transfer", hi + Bytes(RecordPrefix{.transfer = 1}), Expect::kCut,
       "transfer of a MESSAGE is 0"},
      {"head = 0", hi + Message(""), Expect::kEnded, "a head of 0 bytes"},
      {"head = 1", hi + Message("\x02"), Expect::kEnded, "a head of 1 bytes"},
      {"head = 31", hi + Message(head.substr(0, 31)), Expect::kEnded, "a head of 31 bytes"},
      {"head = 4095", hi + Message(FullHead(4095), AskBody()), Expect::kServed},
      {"head = 4096", hi + Message(FullHead(4096), AskBody()), Expect::kServed},
      {"body = 0", hi + Message(head, ""), Expect::kRefused, "cannot be read", kInvalid},
      {"body = 1", hi + Message(head, "x"), Expect::kRefused, "cannot be read", kInvalid},
      {"body = 65535", hi + Message(head, Padded(kMaxInline - 1)), Expect::kServed},
      {"body = 65536", hi + Message(head, Padded(kMaxInline)), Expect::kServed},
      {"attachment = 1", hi + Message(head, AskBody(), "a"), Expect::kServed},
      {"payload = 65536 in two parts", hi + Message(head, Padded(65000), std::string(536, 'a')),
       Expect::kServed},
      {"payload = 65537 in two parts", hi + Bytes(RecordPrefix{.first = 65000, .second = 537}),
       Expect::kCut, "payload of a MESSAGE is at most 65536 bytes, not 65537"},
      {"body + attachment = 2^64", hi + Bytes(RecordPrefix{.first = kTwo63, .second = kTwo63}),
       Expect::kCut, "together fit 64 bits"},
      {"body + attachment = 2^64 + 1", hi + Bytes(RecordPrefix{.first = kMax64, .second = 2}),
       Expect::kCut, "together fit 64 bits"}};
  for (const uint8_t kind : std::initializer_list<uint8_t>{0, 6, 127, 255}) {
    cases.push_back({Sized("record kind", kind), hi + Bytes(RecordPrefix{.kind = kind}),
                     Expect::kCut, "the kind of a record is 1 to 5"});
  }
  for (const uint16_t bytes : std::initializer_list<uint16_t>{4097, 32767, 32768, 65535}) {
    cases.push_back({Sized("head", bytes), hi + Bytes(RecordPrefix{.head = bytes}), Expect::kCut,
                     "a head is at most 4096 bytes"});
  }
  for (const uint64_t bytes : {kMaxInline + 1, kTwo31 - 1, kTwo31, kMax32, kTwo63, kMax64}) {
    cases.push_back({Sized("body", bytes), hi + Bytes(RecordPrefix{.first = bytes}), Expect::kCut,
                     "payload of a MESSAGE"});
    cases.push_back({Sized("attachment", bytes), hi + Bytes(RecordPrefix{.second = bytes}),
                     Expect::kCut, "payload of a MESSAGE"});
  }
  return cases;
}

namespace {

std::string ChunkPrefix(uint64_t offset, uint64_t length, uint32_t transfer = 1) {
  return Bytes({.kind = kChunk, .transfer = transfer, .first = offset, .second = length});
}

std::vector<Case> ChunkNumbers() {
  const std::string& hi = Hi();
  const std::string head = Head(Ask());
  const std::string begun = hi + Begin(1, head, 600'000);
  std::vector<Case> cases;
  for (const uint64_t length : {uint64_t{0}, kMaxChunk + 1, kTwo31, kMax32, kTwo63, kMax64}) {
    cases.push_back({Sized("CHUNK length", length), begun + ChunkPrefix(0, length), Expect::kCut,
                     "the length of a CHUNK is 1 to 2097152"});
  }
  for (const uint64_t offset : {uint64_t{1}, kTwo31, kMax32, kTwo63, kMax64 - 1}) {
    cases.push_back({Sized("CHUNK offset", offset), begun + ChunkPrefix(offset, 1), Expect::kCut,
                     "chunks come in order"});
  }
  for (const uint64_t transfer : {uint64_t{2}, kTwo31 - 1, kTwo31, kMax32}) {
    const auto number = static_cast<uint32_t>(transfer);
    cases.push_back({Sized("BEGIN transfer", transfer), hi + Begin(number, head, 70'000),
                     Expect::kCut, "transfers are numbered in order: 1 is next"});
    cases.push_back({Sized("CHUNK transfer", transfer), begun + ChunkPrefix(0, 1, number),
                     Expect::kCut, "a CHUNK belongs to a transfer that is under way"});
  }
  for (const uint64_t bytes : {kTwo31 - 1, kTwo31, kMax32, kTwo63, kMax64}) {
    cases.push_back({Sized("BEGIN body", bytes), hi + Begin(1, head, bytes), Expect::kRefused,
                     "max_body_bytes", kExhausted});
    cases.push_back({Sized("BEGIN attachment", bytes), hi + Begin(1, head, 0, bytes),
                     Expect::kRefused, "max_attachment_bytes", kExhausted});
  }
  return cases;
}

}  // namespace

std::vector<Case> ChunkCases() {
  const std::string& hi = Hi();
  const std::string head = Head(Ask());
  const std::string begun = hi + Begin(1, head, 600'000);
  const std::string most(kMaxChunk, 'c');
  std::vector<Case> cases = {
      {"BEGIN of 0", hi + Begin(1, head, 0), Expect::kCut, "payload of a BEGIN is more than"},
      {"BEGIN of 1", hi + Begin(1, head, 1), Expect::kCut, "payload of a BEGIN is more than"},
      {"BEGIN of 65536", hi + Begin(1, head, kMaxInline), Expect::kCut, "more than 65536"},
      {"BEGIN of 65537", hi + Transfer(1, head, Padded(kMaxInline + 1)), Expect::kServed},
      {"BEGIN of the largest body - 1", hi + Transfer(1, head, Padded(kServerBody - 1)),
       Expect::kServed},
      {"BEGIN of the largest body", hi + Transfer(1, head, Padded(kServerBody)), Expect::kServed},
      {"BEGIN of the largest body + 1", hi + Transfer(1, head, Padded(kServerBody + 1)),
       Expect::kRefused, "max_body_bytes", kExhausted},
      {"BEGIN of the largest attachment",
       hi + Transfer(1, head, AskBody(), std::string(kServerAttachment, 'a')), Expect::kServed},
      {"BEGIN of the largest attachment + 1",
       hi + Transfer(1, head, AskBody(), std::string(kServerAttachment + 1, 'a')), Expect::kRefused,
       "max_attachment_bytes", kExhausted},
      {"BEGIN of 2^64 together", hi + Begin(1, head, kTwo63, kTwo63), Expect::kCut, "fit 64 bits"},
      {"the first transfer is 0", hi + Begin(0, head, 70'000), Expect::kCut, "is at least 1"},
      {"a transfer number used twice", begun + Begin(1, head, 70'000), Expect::kCut, "2 is next"},
      {"CHUNK out of order", begun + ChunkPrefix(1, 10), Expect::kCut,
       "offset 0 of transfer 1 is next"},
      {"CHUNK overlapping", begun + Chunk(1, 0, "0123456789") + ChunkPrefix(9, 10), Expect::kCut,
       "offset 10 of transfer 1 is next"},
      {"CHUNK beyond the end",
       begun + Chunk(1, 0, most) + Chunk(1, kMaxChunk, most) +
           ChunkPrefix(2 * kMaxChunk, kMaxChunk),
       Expect::kCut, "a CHUNK ends with its payload"},
      {"CHUNK after the end", hi + Transfer(1, head, Padded(70'000)) + ChunkPrefix(70'000, 1),
       Expect::kCut, "that is under way, not 1"},
      {"CHUNK of a message never announced", hi + ChunkPrefix(0, 1), Expect::kCut,
       "under way, not 1"},
      {"CHUNK after ABORT", begun + Abort(1) + ChunkPrefix(0, 1), Expect::kCut, "under way, not 1"},
      {"ABORT of nothing", hi + Abort(1), Expect::kCut, "ABORT ends a transfer that is under way"},
      {"ABORT twice", begun + Abort(1) + Abort(1), Expect::kCut, "ABORT ends a transfer"},
      {"ABANDON of nothing", hi + Abandon(1), Expect::kCut, "ABANDON names a transfer that began"},
      {"CHUNK offset = 2^64-1", begun + ChunkPrefix(kMax64, 1), Expect::kCut, "CHUNK fits 64 bits"},
      {"ABORT ends the call", begun + Chunk(1, 0, "x") + Abort(1), Expect::kRefused,
       "gave the message up after 1 of 600000", absl::StatusCode::kCancelled}};
  const std::vector<Case> numbers = ChunkNumbers();
  cases.insert(cases.end(), numbers.begin(), numbers.end());
  std::string many = hi;  // small enough to fit a call each, and more than may be unfinished
  for (uint32_t i = 1; i <= 1025; ++i) many += Begin(i, Head(Ask(100 + i)), kServerBody + 1);
  cases.push_back({"too many transfers", many, Expect::kCut, "at most 1024 transfers"});
  return cases;
}

std::vector<Case> HeaderCases() {
  const std::string& hi = Hi();
  const auto bent = [&](const Header& header) { return hi + Message(Bytes(header), AskBody()); };
  Header ask = Ask();
  std::vector<Case> cases = {
      {"request flags",
       bent({.type = kRequest, .flags = 1, .call = 1, .method = ask.method, .timeout = 1}),
       Expect::kEnded, "unknown flags 1"},
      {"request status", bent({.type = kRequest, .status = 1, .call = 1, .timeout = 1}),
       Expect::kEnded, "must be 0"},
      {"status 17", bent({.type = kReply, .status = 17, .call = 1}), Expect::kEnded,
       "status code 17"},
      {"status 65535", bent({.type = kReply, .status = 65535, .call = 1}), Expect::kEnded,
       "status code 65535"},
      {"request sequence", bent({.type = kRequest, .sequence = 1, .call = 1, .timeout = 1}),
       Expect::kEnded, "must be 0"},
      {"PING with a method", hi + Message(Bytes(Header{.method = 1})), Expect::kEnded, "must be 0"},
      {"PING with a timeout", hi + Message(Bytes(Header{.timeout = 1})), Expect::kEnded,
       "must be 0"},
      {"timeout = 0", bent(Ask(1, 0)), Expect::kEnded, "a request without a timeout"},
      {"timeout = 2^63", bent(Ask(1, kTwo63)), Expect::kServed},
      {"timeout = 2^64-1", bent(Ask(1, kMax64)), Expect::kServed},
      {"method = 0", bent({.type = kRequest, .call = 1, .timeout = kMinuteNs}), Expect::kRefused,
       "", absl::StatusCode::kUnimplemented},
      {"method = 2^64-1",
       bent({.type = kRequest, .call = 1, .method = kMax64, .timeout = kMinuteNs}),
       Expect::kRefused, "", absl::StatusCode::kUnimplemented},
      {"a streaming method",
       bent({.type = kRequest,
             .call = 1,
             .method = testing::Probe::WatchMethod::info().id,
             .timeout = kMinuteNs}),
       Expect::kRefused, "no streams", absl::StatusCode::kUnimplemented},
      {"a method of an unknown service",
       bent({.type = kRequest, .call = 1, .method = ask.method ^ 1, .timeout = kMinuteNs}),
       Expect::kRefused, "", absl::StatusCode::kUnimplemented}};
  for (const uint8_t type : std::initializer_list<uint8_t>{0, 10, 127, 255}) {
    cases.push_back({Sized("frame type", type), hi + Message(Bytes(Header{.type = type})),
                     Expect::kEnded, "unknown frame type"});
  }
  return cases;
}

std::vector<Case> FieldCases() {
  const std::string& hi = Hi();
  const auto with = [&](const FieldWords& field) {
    return hi + Message(Head(Ask(), {field}), AskBody());
  };
  const auto key = [&](size_t bytes) {
    return with({.key = std::string(bytes, 'k'), .value = "v"});
  };
  std::vector<Case> cases = {
      {"metadata key of 0", key(0), Expect::kEnded, "a metadata key is empty"},
      {"metadata key of 1", key(1), Expect::kServed},
      {"metadata key of 254", key(254), Expect::kServed},
      {"metadata key of 255", key(255), Expect::kServed},
      {"metadata key of 256", key(256), Expect::kEnded, "a metadata key has 256 bytes"},
      {"metadata key of 4000", key(4000), Expect::kEnded, "a metadata key has 4000 bytes"},
      {"metadata value of 0", with({.key = "k"}), Expect::kServed},
      {"metadata with NUL", with({.key = std::string("a\0b", 3), .value = std::string(9, '\0')}),
       Expect::kServed},
      {"metadata with CR LF", with({.key = "x\r\ny", .value = "\r\n\r\nGET /"}), Expect::kServed},
      {"metadata above 0x7f", with({.key = "\xff\x80", .value = "\xc0\x80\xfe"}), Expect::kServed},
      {"reserved byte of a field", with({.key = "k", .reserved = 1}), Expect::kEnded, "reserved"},
      {"a status message on a request", with({.kind = kStatusMessage}), Expect::kEnded, "kind 2"},
      {"a field of HELLO on a request", with({.kind = kLimits}), Expect::kEnded, "kind 4"}};
  for (const uint8_t kind : std::initializer_list<uint8_t>{0, 8, 31, 32, 33, 255}) {
    cases.push_back(
        {Sized("field kind", kind), with({.kind = kind}), Expect::kEnded, "a field of kind"});
  }
  for (const uint16_t bytes : std::initializer_list<uint16_t>{4, 255, 4096, 32767, 32768, 65535}) {
    cases.push_back({Sized("key length past the head", bytes),
                     with({.key = "k", .value = "v", .key_length = bytes}), Expect::kEnded,
                     "a field of"});
  }
  for (const uint64_t bytes : {uint64_t{2}, kTwo31 - 1, kTwo31, kMax32 - 1, kMax32}) {
    cases.push_back({Sized("value length past the head", bytes),
                     with({.key = "k", .value = "v", .value_length = static_cast<uint32_t>(bytes)}),
                     Expect::kEnded, "a field of"});
  }
  for (size_t bytes = 1; bytes < kFieldPrefixBytes; ++bytes) {
    cases.push_back({Sized("bytes behind the last field", bytes),
                     hi + Message(Bytes(Ask()) + std::string(bytes, '\0'), AskBody()),
                     Expect::kEnded, "prefix is cut short"});
  }
  for (const size_t count : {size_t{64}, size_t{65}, size_t{300}}) {
    const std::string head =
        Head(Ask(), std::vector<FieldWords>(count, {.key = "k", .value = "v"}));
    cases.push_back({Sized("metadata entries", count), hi + Message(head, AskBody()),
                     count > 64 ? Expect::kEnded : Expect::kServed,
                     count > 64 ? "more than 64 fields" : ""});
  }
  return cases;
}

namespace {

// Of a HELLO to a server that gives none.
std::vector<Case> TokenCases() {
  const auto more = [](const FieldWords& field) { return Preamble() + Hello({}, {field}); };
  return {{"a token of no bytes", more({.kind = kToken}), Expect::kEnded, "a token of 0 bytes"},
          {"a token of 65 bytes", more({.kind = kToken, .value = std::string(65, 't')}),
           Expect::kEnded, "a token of 65 bytes"},
          {"a token with a key", more({.kind = kToken, .key = "k", .value = "t"}), Expect::kEnded,
           "without a key"},
          {"a token where none was given", more({.kind = kToken, .value = "t"}), Expect::kEnded,
           "knows no tokens", absl::StatusCode::kFailedPrecondition}};
}

}  // namespace

std::vector<Case> HelloCases() {
  const std::string& hi = Hi();
  const auto only = [](const std::string& record) { return Preamble() + record; };
  const auto ranged = [&](uint16_t lowest, uint16_t highest) {
    return only(Message(
        Head(HelloHeader(lowest, highest), {{.kind = kLimits, .value = Bytes(LimitsWords{})}})));
  };
  const auto limited = [&](const LimitsWords& limits) {
    return only(Hello(limits)) + AskMessage();
  };
  const auto sized = [&](size_t bytes) {
    return only(
        Message(Head(HelloHeader(), {{.kind = kLimits, .value = std::string(bytes, '\0')}})));
  };
  const auto more = [&](const FieldWords& field) { return only(Hello({}, {field})); };
  constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
  Header other = HelloHeader();
  other.method = kMagic ^ 1;
  std::string flood = hi;
  for (int i = 0; i < 5000; ++i) flood += Hello();
  std::vector<Case> cases = {
      {"versions 0 to 0", ranged(0, 0), Expect::kEnded, "no protocol version", kPrecondition},
      {"versions 2 to 3", ranged(2, 3), Expect::kEnded, "no protocol version", kPrecondition},
      {"versions 65535 to 65535", ranged(65535, 65535), Expect::kEnded, "no protocol version",
       kPrecondition},
      {"versions 2 to 0", ranged(2, 0), Expect::kEnded, "no protocol version", kPrecondition},
      {"versions 0 to 65535", ranged(0, 65535) + AskMessage(), Expect::kServed},
      {"another magic number", only(Message(Bytes(other))), Expect::kEnded,
       "not a HELLO of Farcall"},
      {"no limits", only(Message(Bytes(HelloHeader()))), Expect::kEnded, "it tells no limits"},
      {"limits of 0 bytes", sized(0), Expect::kEnded, "limits of 0 bytes"},
      {"limits of 31 bytes", sized(31), Expect::kEnded, "limits of 31 bytes"},
      {"limits of 33 bytes", sized(33), Expect::kEnded, "limits of 33 bytes"},
      {"limits twice", more({.kind = kLimits, .value = Bytes(LimitsWords{})}), Expect::kEnded,
       "second field of kind 4"},
      {"reserved word of the limits", only(Hello({.reserved = 1})), Expect::kEnded,
       "reserved word"},
      {"unknown feature bits", limited({.features = kMax64}), Expect::kServed},
      {"max_calls_in_flight 0", limited({.calls = 0}), Expect::kServed},
      {"max_calls_in_flight 2^32-1", limited({.calls = ~uint32_t{0}}), Expect::kServed},
      {"limits of 2^64-1", limited({.body = kMax64, .attachment = kMax64}), Expect::kServed},
      {"an offer without a name", more({.kind = kOffer, .value = "x"}), Expect::kEnded,
       "empty key"},
      {"an offer with a long name",
       more({.kind = kOffer, .key = std::string(3000, 'n')}) + AskMessage(), Expect::kServed},
      {"authentication with a key", more({.kind = kAuthentication, .key = "k"}), Expect::kEnded,
       "without a key"},
      {"authentication twice",
       only(Hello({}, {{.kind = kAuthentication}, {.kind = kAuthentication}})), Expect::kEnded,
       "second field of kind 6"},
      {"authentication of any bytes",
       more({.kind = kAuthentication, .value = std::string("\0\r\n\xff", 4)}) + AskMessage(),
       Expect::kServed},
      {"metadata in HELLO", more({.key = "k"}), Expect::kEnded, "kind 1 in a frame of type 1"},
      {"HELLO with a body",
       only(Message(Head(HelloHeader(), {{.kind = kLimits, .value = Bytes(LimitsWords{})}}), "x")),
       Expect::kEnded, "a payload on a control frame"},
      {"HELLO twice", hi + Hello(), Expect::kEnded, "a second HELLO"},
      {"a flood of HELLOs", flood, Expect::kEnded, "a second HELLO"},
      {"a request before HELLO", only(AskMessage()), Expect::kEnded, "a frame before HELLO"}};
  for (const uint8_t type : {kReply, kCancel, kPing, kPong}) {
    cases.push_back({Sized("before HELLO, a frame of type", type),
                     only(Message(Bytes(Header{.type = type}))), Expect::kEnded, "before HELLO"});
  }
  for (Case& token : TokenCases()) cases.push_back(std::move(token));
  return cases;
}

std::vector<Case> RequestCases() {
  const std::string& hi = Hi();
  const auto wait = [](uint64_t id) {
    Header header = Ask(id);
    header.method = testing::Probe::WaitMethod::info().id;
    return Message(Bytes(header), AskBody("", 60'000));
  };
  const std::string cancel = Message(Bytes(Header{.type = kCancel, .call = 1}));
  std::string garbage = AskBody("", 0, 100);
  garbage.replace(0, 4, "\xff\xff\xff\x7f");
  const std::string begin = Begin(1, Head(Ask()), 70'000);
  std::string busy = hi;
  for (uint64_t id = 2; id < 2 + kServerCalls; ++id) busy += wait(id);
  return {
      {"call id 0", hi + AskMessage(0) + AskMessage(), Expect::kServed},
      {"a call id that is in flight", hi + wait(1) + AskMessage(1), Expect::kEnded,
       "in flight already"},
      {"a call id that is announced", hi + begin + AskMessage(1), Expect::kEnded,
       "in flight already"},
      {"a call id after CANCEL of its payload", hi + begin + cancel + AskMessage(1),
       Expect::kServed},
      {"CANCEL of nothing", hi + cancel, Expect::kIgnored},
      {"CANCEL twice", hi + begin + cancel + cancel, Expect::kIgnored},
      {"CANCEL with a large body",
       hi + Transfer(1, Head({.type = kCancel, .call = 7}), std::string(70'000, 'x')),
       Expect::kEnded, "a payload on a control frame"},
      {"CANCEL with a body", hi + Message(Bytes(Header{.type = kCancel, .call = 1}), "x"),
       Expect::kEnded, "payload on a control"},
      {"a REPLY from the caller",
       hi + Message(Bytes(Header{.type = kReply, .call = 1}), AnswerBody("x")), Expect::kEnded,
       "a REPLY from the side that calls"},
      {"a body that does not verify", hi + Message(Head(Ask()), garbage), Expect::kRefused,
       "cannot be read", kInvalid},
      {"a body of zeros", hi + Message(Head(Ask()), std::string(64, '\0')), Expect::kRefused,
       "cannot be read", kInvalid},
      {"a body of 0xff", hi + Message(Head(Ask()), std::string(64, '\xff')), Expect::kRefused,
       "cannot be read", kInvalid},
      {"more calls than are served at once", busy + AskMessage(), Expect::kRefused,
       "max_calls_in_flight", kExhausted},
      {"PONG nobody asked for", hi + Message(Bytes(Header{.type = kPong, .call = 5})),
       Expect::kIgnored},
      {"GOAWAY 0 and calls after it", hi + Message(Bytes(Header{.type = kGoAway})) + AskMessage(),
       Expect::kServed},
      {"OFFERS with an offer",
       hi + Message(Head({.type = kOffers}, {{.kind = kOffer, .key = "shm", .value = "x"}})),
       Expect::kEnded, "from the side that calls"},
      {"OFFERS with a body", hi + Message(Bytes(Header{.type = kOffers}), "x"), Expect::kEnded,
       "a payload on a control frame"},
      {"a PROBE of 1 MiB + 1", hi + Begin(1, Bytes(Header{.type = kProbe}), (1 << 20) + 1),
       Expect::kEnded, "the limit is 1048576"},
      {"a PROBE with an attachment", hi + Message(Bytes(Header{.type = kProbe}), "", "x"),
       Expect::kEnded, "an attachment on a PROBE"},
      {"a deadline that passes before the request is whole",
       hi + Begin(1, Head(Ask(1, 20'000'000)), 70'000), Expect::kRefused,
       "before its request was whole", absl::StatusCode::kDeadlineExceeded},
  };
}

}  // namespace farcall::hostile
