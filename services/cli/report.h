// What `farcall doctor` prints: for people, and as JSON for programs.

#ifndef FARCALL_SERVICES_CLI_REPORT_H_
#define FARCALL_SERVICES_CLI_REPORT_H_

#include <string>
#include <vector>

#include "farcall/services/cli/facts.h"
#include "farcall/services/cli/judge.h"
#include "farcall/services/cli/probe.h"

namespace farcall::cli {

struct Report {
  Facts facts;
  std::vector<Finding> findings;
  std::string address;           // that was tried; empty: none
  std::vector<ProbeStep> steps;  // of it
};

// Nothing stands in the way.
bool AllWell(const Report& report);

std::string AsText(const Report& report);
// One object: "well", "versions", "cpus", "modules", "adapters", "limits", "shm", "findings" and,
// with an address, "probe". Limits that there are not are null.
std::string AsJson(const Report& report);

}  // namespace farcall::cli

#endif  // FARCALL_SERVICES_CLI_REPORT_H_
