// What a TCP peer says, from a fuzzer's script; and what that means, read by the simplest reader of
// transports/tcp/wire_format.md: the whole stream at once, in no hurry, with a copy of everything.

#ifndef FARCALL_TESTS_FUZZ_TCP_STREAM_H_
#define FARCALL_TESTS_FUZZ_TCP_STREAM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "farcall/rpc/transport.h"
#include "farcall/tests/fuzz/target.h"

namespace farcall::fuzz {

// The bytes of a stream, at most about 1 MiB. They need not follow any rule.
std::string WriteStream(Input& script);

struct Told {
  struct Payload {
    std::string head;
    uint64_t body = 0;
    uint64_t attachment = 0;
    std::string bytes;  // as far as they came
    bool whole = false;
    bool aborted = false;
  };
  std::vector<Payload> messages;    // in the order of their heads: the first has ticket 1
  std::vector<Ticket> order;        // of becoming whole
  std::vector<uint32_t> abandoned;  // our transfers that the peer wants no more of
  bool violated = false;            // a rule was broken after all of this
  bool at_rest = false;             // the stream ends between records, with no transfer unfinished
};
Told ReadStream(std::string_view stream);

// Decisions of the side that receives, drawn from a few bytes round and round: a change of the
// stream leaves them alone. All zero: everything is taken as it comes.
class Dice {
 public:
  static constexpr size_t kBytes = 16;
  explicit Dice(Input& script) : bytes_(script.Bytes(kBytes)) { bytes_.resize(kBytes, '\0'); }
  size_t Next() { return static_cast<uint8_t>(bytes_[at_++ % kBytes]); }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

// Scripts: the dice, then a stream.
std::vector<std::string> StreamSeeds();

}  // namespace farcall::fuzz

#endif  // FARCALL_TESTS_FUZZ_TCP_STREAM_H_
