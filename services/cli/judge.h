// What the facts mean: findings, each with its remedy. Pure.

#ifndef FARCALL_SERVICES_CLI_JUDGE_H_
#define FARCALL_SERVICES_CLI_JUDGE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "farcall/services/cli/facts.h"

namespace farcall::cli {

struct Finding {
  enum class Level {
    kOk,
    kNote,     // works, and could be better; or stands in the way of nothing that was asked for
    kProblem,  // stands in the way
  };
  Level level = Level::kOk;
  std::string topic;  // "rdma://", "memlock"
  std::string text;
  std::string remedy;  // what to do; empty: nothing
};
std::string_view ToString(Finding::Level level);  // "ok", "note", "PROBLEM"

// Which GID of a port a connection uses.
struct GidChoice {
  size_t place = 0;  // in PortSurvey::gids
  std::string why;
};
// As rdma_cm does it: that of the source address, RoCE v2 before v1; without an address, what
// connections by IPv4 use. Nothing for iWARP, which has no use for them, and when there is none.
std::optional<GidChoice> ChooseGid(const verbs::AdapterSurvey& adapter,
                                   const verbs::PortSurvey& port, std::string_view source_address);

// `scheme` is that of the address that was asked about: what stands in the way of others is a note.
// Without one all of it is a problem that stands in the way of rdma://.
std::vector<Finding> Judge(const Facts& facts, std::string_view scheme);

}  // namespace farcall::cli

#endif  // FARCALL_SERVICES_CLI_JUDGE_H_
