#include "farcall/tests/fuzz/tcp_stream.h"

#include <limits>
#include <map>

#include "farcall/rpc/bytes.h"
#include "farcall/tests/transports/tcp/wire.h"
#include "farcall/transports/tcp/prefix.h"
#include "farcall/transports/tcp/send_queue.h"

namespace farcall::fuzz {
namespace {

using tcp::Prefix;
using tcp::RecordKind;
using tcp::testing::Pattern;

constexpr size_t kMaxStream = size_t{1} << 19;

enum Step : uint8_t {
  kGreet,       // the preamble
  kRaw,         // u16 length, bytes
  kPrefix,      // a record's 24 bytes
  kMessage,     // head, u16 body, u16 attachment
  kBegin,       // u8 how many, head, u32 body, u32 attachment
  kChunk,       // u8 which of the unfinished, u32 length: the right next one
  kWrongChunk,  // u8 which; its last one, but for u8 each beyond its number, offset and length
  kAbort,       // u8 which of the unfinished
  kAbandon,     // u8 transfer
  kSteps,
};

// ---- writing ----

class Writer {
 public:
  explicit Writer(Input& script) : script_(script) {}

  std::string Write() {
    while (!script_.empty() && stream_.size() < kMaxStream) {
      Take(static_cast<Step>(script_.Byte() % kSteps));
    }
    return std::move(stream_);
  }

 private:
  struct Transfer {
    uint32_t number;
    uint64_t total, sent;
  };

  void Put(const Prefix& prefix) { stream_ += tcp::testing::Record(prefix); }
  void PutPayload(uint64_t size) {
    static const std::string pattern = Pattern(tcp::kMaxChunk + 251);
    // From another place each time, so that misplaced bytes show.
    stream_ += std::string_view(pattern).substr(
        stream_.size() % 251, static_cast<size_t>(std::min<uint64_t>(size, tcp::kMaxChunk)));
  }

  void Take(Step step) {
    switch (step) {
      case kGreet:
        stream_ += tcp::testing::Hello();
        break;
      case kRaw:
        stream_ += script_.Bytes(script_.Take<uint16_t>());
        break;
      case kPrefix:
        stream_ += script_.Bytes(tcp::kPrefixBytes);
        break;
      case kMessage: {
        const std::string_view head = script_.Short();
        const uint64_t body = script_.Take<uint16_t>(), attachment = script_.Take<uint16_t>();
        Put({.head = static_cast<uint16_t>(head.size()), .body = body, .attachment = attachment});
        stream_ += head;
        PutPayload(body + attachment);
        break;
      }
      case kBegin:
        Begin();
        break;
      default:
        TakeTransfer(step);
    }
  }

  void Begin() {
    const size_t times = script_.Byte() % 8 + 1;  // thousands are slow, and find nothing more
    const std::string_view head = script_.Short();
    const uint64_t body = script_.Take<uint32_t>(), attachment = script_.Take<uint32_t>();
    for (size_t i = 0; i < times; ++i) {
      Put({.kind = RecordKind::kBegin,
           .head = static_cast<uint16_t>(head.size()),
           .transfer = ++last_transfer_,
           .body = body,
           .attachment = attachment});
      stream_ += head;
      transfers_.push_back({last_transfer_, body + attachment, 0});
    }
  }

  void TakeTransfer(Step step) {
    const size_t which = script_.Byte();
    if (step == kAbandon) {
      Put({.kind = RecordKind::kAbandon, .transfer = static_cast<uint32_t>(which)});
      return;
    }
    const uint32_t other = step == kWrongChunk ? script_.Byte() : 0;
    const uint64_t ahead = step == kWrongChunk ? script_.Byte() : 0;
    const uint64_t longer = step == kWrongChunk ? script_.Byte() : 0;
    const uint64_t wish = step == kChunk ? script_.Take<uint32_t>() : 0;
    if (transfers_.empty()) return;
    const auto chosen = transfers_.begin() + static_cast<ptrdiff_t>(which % transfers_.size());
    if (step == kAbort) {
      Put({.kind = RecordKind::kAbort, .transfer = chosen->number});
      transfers_.erase(chosen);
      return;
    }
    if (step == kWrongChunk) {
      Put({.kind = RecordKind::kChunk,
           .transfer = chosen->number + other,
           .offset = chosen->sent + ahead,
           .length = chosen->total - chosen->sent + longer});
      PutPayload(chosen->total - chosen->sent + longer);
      return;
    }
    const uint64_t length = std::min({wish, chosen->total - chosen->sent, tcp::kMaxChunk});
    Put({.kind = RecordKind::kChunk,
         .transfer = chosen->number,
         .offset = chosen->sent,
         .length = length});
    PutPayload(length);
    chosen->sent += length;
    if (chosen->sent == chosen->total) transfers_.erase(chosen);
  }

  Input& script_;
  std::string stream_;
  std::vector<Transfer> transfers_;  // unfinished
  uint32_t last_transfer_ = 0;
};

// ---- reading ----

class Reader {
 public:
  explicit Reader(std::string_view stream) : rest_(stream) {}

  Told Read() {
    const std::string preamble = std::string("FARCALL") + '\x01';
    const std::string_view greeting = rest_.substr(0, preamble.size());
    if (greeting != std::string_view(preamble).substr(0, greeting.size())) {
      told_.violated = true;
      return std::move(told_);
    }
    if (Cut(preamble.size())) {
      while (!rest_.empty() && !told_.violated && Record()) {
      }
      told_.at_rest = rest_.empty() && !cut_ && transfers_.empty();
    }
    return std::move(told_);
  }

 private:
  // Takes `size` bytes away if they are there.
  bool Cut(uint64_t size) {
    cut_ = rest_.size() < size;
    if (!cut_) rest_.remove_prefix(static_cast<size_t>(size));
    return !cut_;
  }

  // False: the rest is not a whole record.
  bool Record() {
    const std::string_view record = rest_.substr(0, 24);
    if (!Cut(24)) return false;
    const auto* at = reinterpret_cast<const std::byte*>(record.data());
    const auto kind = LoadLittle<uint8_t>(at), flags = LoadLittle<uint8_t>(at + 1);
    const auto head = LoadLittle<uint16_t>(at + 2);
    const auto transfer = LoadLittle<uint32_t>(at + 4);
    const auto first = LoadLittle<uint64_t>(at + 8), second = LoadLittle<uint64_t>(at + 16);
    const bool overflow = first > std::numeric_limits<uint64_t>::max() - second;
    bool good = flags == 0 && !overflow;
    if (kind == 1) {
      good = good && head <= 4096 && transfer == 0 && first + second <= 65536;
    } else if (kind == 2) {
      good = good && head <= 4096 && transfer != 0 && first + second > 65536;
    } else if (kind == 3) {
      good = good && head == 0 && transfer != 0 && second >= 1 && second <= 2097152;
    } else {
      good = good && (kind == 4 || kind == 5) && head == 0 && transfer != 0 && first == 0 &&
             second == 0;
    }
    CheckLibrary(record, good);
    // What depends on the records before.
    if (kind == 2) good = good && transfer == last_begun_ + 1 && transfers_.size() < 1024;
    if (kind == 3 || kind == 4) good = good && transfers_.contains(transfer);
    if (kind == 3 && good) {
      const Told::Payload& message = told_.messages[transfers_[transfer]];
      good = first == message.bytes.size() &&
             second <= message.body + message.attachment - message.bytes.size();
    }
    told_.violated = !good;
    return good && Content(kind, head, transfer, first, second);
  }

  bool Content(uint8_t kind, uint16_t head, uint32_t transfer, uint64_t first, uint64_t second) {
    switch (kind) {
      case 1:
        return Announce(head, first, second) && Payload(told_.messages.size() - 1, first + second);
      case 2: {
        last_begun_ = transfer;
        const bool announced = Announce(head, first, second);
        // Not announced: it is unfinished all the same.
        transfers_[transfer] = told_.messages.size() - (announced ? 1 : 0);
        return announced;
      }
      case 3: {
        const size_t index = transfers_[transfer];
        const bool came = Payload(index, second);
        if (told_.messages[index].whole) transfers_.erase(transfer);
        return came;
      }
      case 4:
        told_.messages[transfers_[transfer]].aborted = true;
        transfers_.erase(transfer);
        return true;
      default:
        told_.abandoned.push_back(transfer);
        return true;
    }
  }

  bool Announce(uint16_t head, uint64_t body, uint64_t attachment) {
    const std::string text(rest_.substr(0, head));
    if (!Cut(head)) return false;
    told_.messages.push_back({.head = text, .body = body, .attachment = attachment, .bytes = {}});
    return true;
  }

  bool Payload(size_t index, uint64_t size) {
    Told::Payload& message = told_.messages[index];
    const std::string_view bytes = rest_.substr(0, static_cast<size_t>(size));
    message.bytes += bytes;
    rest_.remove_prefix(bytes.size());
    cut_ = bytes.size() < size;
    message.whole = message.bytes.size() == message.body + message.attachment;
    if (message.whole) told_.order.push_back(index + 1);
    return !cut_;
  }

  // The library judges a prefix in the same way, and writes one that it takes as it was.
  static void CheckLibrary(std::string_view record, bool good) {
    tcp::PrefixBytes bytes;
    std::memcpy(bytes.data(), record.data(), bytes.size());
    Prefix prefix;
    FUZZ_CHECK(tcp::DecodePrefix(bytes, prefix).ok() == good);
    if (good) FUZZ_CHECK(tcp::testing::Record(prefix) == record);
  }

  std::string_view rest_;
  Told told_;
  std::map<uint32_t, size_t> transfers_;  // unfinished -> index in messages
  uint32_t last_begun_ = 0;
  bool cut_ = false;  // the last record is not whole
};

// What a SendQueue writes.
std::string Sent(const std::vector<std::string>& bodies) {
  BufferPool pool;
  tcp::OutgoingStore store;
  tcp::SendQueue queue(store, {});
  for (const std::string& body : bodies) {
    queue.Push(tcp::testing::MakeMessage(pool, "head of " + body, body), [](const SendResult&) {});
  }
  std::string bytes;
  tcp::SendBatch batch;
  for (queue.Gather(batch); batch.count > 0; queue.Gather(batch)) {
    for (size_t i = 0; i < batch.count; ++i) {
      bytes.append(static_cast<const char*>(batch.regions[i].iov_base), batch.regions[i].iov_len);
    }
    queue.Written(batch, batch.bytes);
  }
  tcp::OutgoingList finished = queue.TakeFinished();
  while (tcp::Outgoing* outgoing = finished.PopFront()) store.Return(outgoing);
  return bytes;
}

void PutBegin(Script& script, size_t times, uint32_t body, uint32_t attachment) {
  script.Byte(kBegin).Byte(times).Short("large").Put(body).Put(attachment);
}

}  // namespace

std::string WriteStream(Input& script) { return Writer(script).Write(); }

Told ReadStream(std::string_view stream) { return Reader(stream).Read(); }

std::vector<std::string> StreamSeeds() {
  const std::string calm(Dice::kBytes, '\0');
  const std::string wild = Pattern(Dice::kBytes, 5);
  const std::string sent = Sent({"", "one", std::string(5000, 'b')});
  Script raw;
  raw.Byte(kRaw).Put(static_cast<uint16_t>(sent.size())).Bytes(sent);
  Script stranger;
  stranger.Byte(kRaw).Put(uint16_t{16}).Bytes("GET / HTTP/1.1\r\n");

  Script mixed;
  mixed.Byte(kGreet);
  mixed.Byte(kMessage).Short("small").Put(uint16_t{100}).Put(uint16_t{0});
  PutBegin(mixed, 0, 70000, 9000);
  mixed.Byte(kChunk).Byte(0).Put(uint32_t{60000});
  mixed.Byte(kMessage).Short(Pattern(200)).Put(uint16_t{9000}).Put(uint16_t{300});
  PutBegin(mixed, 0, 0, 65537);
  mixed.Byte(kChunk).Byte(1).Put(uint32_t{65537});
  mixed.Byte(kChunk).Byte(0).Put(uint32_t{19000});
  mixed.Byte(kMessage).Short("").Put(uint16_t{0}).Put(uint16_t{4097});

  Script given_up;
  given_up.Byte(kGreet);
  PutBegin(given_up, 2, 400000, 0);
  given_up.Byte(kChunk).Byte(3).Put(uint32_t{262144}).Byte(kAbort).Byte(3);
  given_up.Byte(kAbandon).Byte(1).Byte(kAbort).Byte(0);
  given_up.Byte(kWrongChunk).Byte(0).Byte(0).Byte(1).Byte(0);
  given_up.Byte(kWrongChunk).Byte(0).Byte(1).Byte(0).Byte(0);

  Script last_bytes;
  last_bytes.Byte(kGreet);
  PutBegin(last_bytes, 0, 65537, 0);
  last_bytes.Byte(kChunk).Byte(0).Put(uint32_t{65530});
  last_bytes.Byte(kWrongChunk).Byte(0).Byte(0).Byte(0).Byte(0);

  Script huge;
  huge.Byte(kGreet);
  PutBegin(huge, 7, 0x7fffffff, 0xffffffff);
  PutBegin(huge, 0, 65537, 0);
  Script prefix;
  prefix.Byte(kGreet).Byte(kPrefix).Bytes(tcp::testing::MessageRecord("", ""));

  std::vector<std::string> seeds;
  for (const Script& script : {raw, stranger, mixed, given_up, last_bytes, huge, prefix}) {
    for (const std::string& dice : {calm, wild}) seeds.push_back(dice + script.text());
  }
  return seeds;
}

}  // namespace farcall::fuzz
