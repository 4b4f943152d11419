// What a hostile server says to a call, one case a line, and how the call must end.

#ifndef FARCALL_TESTS_HOSTILE_CLIENT_CASES_H_
#define FARCALL_TESTS_HOSTILE_CLIENT_CASES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "farcall/rpc/outcome.h"
#include "farcall/tests/hostile/wire_writer.h"

namespace farcall::hostile {

enum class Connection { kKept, kLost };

struct ClientCase {
  std::string name;
  std::function<std::string(uint64_t call)> bytes;  // after HELLO and the request of `call`
  Connection connection = Connection::kLost;
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  Outcome outcome = Outcome::kUnknown;
  std::string says = {};  // in the call's status
};

// What the channels take.
inline constexpr uint64_t kClientBody = 1 << 20;

// A good reply to `call`.
std::string GoodReply(uint64_t call);

std::vector<ClientCase> BrokenWireCases();   // records and chunks
std::vector<ClientCase> BrokenFrameCases();  // headers, fields, frames that do not belong
std::vector<ClientCase> BadReplyCases();     // well-formed replies that are wrong or unwanted

}  // namespace farcall::hostile

#endif  // FARCALL_TESTS_HOSTILE_CLIENT_CASES_H_
