// What a hostile caller says to a server, one case a line, and what the wire formats promise for
// it.

#ifndef FARCALL_TESTS_HOSTILE_SERVER_CASES_H_
#define FARCALL_TESTS_HOSTILE_SERVER_CASES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "farcall/rpc/server.h"
#include "farcall/tests/hostile/wire_writer.h"

namespace farcall::hostile {

enum class Expect {
  kCut,      // the transport closes; the log names the rule
  kEnded,    // GOAWAY with `code` and the rule, then the connection is closed
  kRefused,  // REPLY with NOT_RUN, `code` and the reason to call 1; the connection goes on
  kServed,   // call 1 is answered OK; the connection goes on
  kIgnored,  // nothing comes back; the connection goes on
};

struct Case {
  std::string name;
  std::string bytes;  // all that is said, from the first byte
  Expect expect = Expect::kCut;
  std::string says = {};
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

// The limits that the cases know.
inline constexpr uint64_t kServerBody = 1 << 20, kServerAttachment = 1 << 20;
inline constexpr uint32_t kServerCalls = 4;
ServerOptions CaseOptions();

// A request for Probe's Do with `id`.
Header Ask(uint64_t id = 1, uint64_t timeout = kMinuteNs);
std::string AskMessage(uint64_t id = 1);

std::vector<Case> RecordCases();   // transports/tcp/wire_format.md
std::vector<Case> ChunkCases();    // its transfers
std::vector<Case> HeaderCases();   // rpc/wire_format.md: header
std::vector<Case> FieldCases();    // fields and metadata
std::vector<Case> HelloCases();    // HELLO
std::vector<Case> RequestCases();  // the conversation

}  // namespace farcall::hostile

#endif  // FARCALL_TESTS_HOSTILE_SERVER_CASES_H_
