// What this machine has in the way of RDMA adapters, for people who look for what is missing. Opens
// adapters to ask them, changes nothing. Any thread.

#ifndef FARCALL_TRANSPORTS_RDMA_VERBS_SURVEY_H_
#define FARCALL_TRANSPORTS_RDMA_VERBS_SURVEY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farcall::verbs {

struct GidSurvey {
  uint32_t index = 0;
  std::string address;    // "198.51.100.1" where the GID is an IPv4 address, else as IPv6
  std::string type;       // "InfiniBand", "RoCE v1", "RoCE v2"
  std::string interface;  // the network interface that it is of, if any
};

struct PortSurvey {
  uint32_t number = 1;
  std::string state;  // "active", "down", "init", …
  bool active = false;
  std::string link_layer;                // "InfiniBand", "Ethernet"
  uint32_t active_mtu = 0, max_mtu = 0;  // bytes
  std::vector<GidSurvey> gids;           // those that are set
};

struct AdapterSurvey {
  std::string name;
  absl::Status opens;     // not OK: why not, and the rest is empty
  std::string transport;  // "InfiniBand" (RoCE, too), "iWARP"
  std::string firmware;
  uint32_t max_queue_pairs = 0;
  bool windows = false;  // Capabilities::windows
  std::vector<PortSurvey> ports;
};

// Those that libibverbs has a driver for. Empty: none.
std::vector<AdapterSurvey> SurveyAdapters();

// This machine's address on the way to `host` (a name or a numeric address), by which rdma_cm
// chooses adapter, port and GID. Asks the name servers as long as that takes, and sends nothing to
// the host itself. UNAVAILABLE: no such name, or no route.
absl::StatusOr<std::string> SourceAddress(std::string_view host);

}  // namespace farcall::verbs

#endif  // FARCALL_TRANSPORTS_RDMA_VERBS_SURVEY_H_
