// Looks at this machine: /proc, /sys, /dev, /lib/modules, limits, adapters. Changes nothing but
// that the folder of shm:// is made when it is missing.

#ifndef FARCALL_SERVICES_CLI_GATHER_H_
#define FARCALL_SERVICES_CLI_GATHER_H_

#include "farcall/services/cli/facts.h"

namespace farcall::cli {

// All but source_address.
Facts Gather();

}  // namespace farcall::cli

#endif  // FARCALL_SERVICES_CLI_GATHER_H_
